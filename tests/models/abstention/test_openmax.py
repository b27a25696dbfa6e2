import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import weibull_min

from cosight.errors import InvalidInput
from cosight.models.abstention import OpenMax
from cosight.models.abstention.openmax import fit_tail

SHIFT = 10_000  # libMR's translate_amount


def likelihood(moved, shape, scale):
    return weibull_min.logpdf(moved, shape, scale=scale).sum()


def of(tail):
    """The tail's shape and scale as scipy counts them."""
    return tail.shape, SHIFT * np.exp(tail.log_scale)


@pytest.mark.parametrize(("spread", "count"), [(0.1, 600), (1, 25), (10, 8)])
def test_scipys_weibull_fit(spread, count):
    distances = np.random.default_rng(count).gamma(5, spread, count)
    tail = np.sort(distances)[-20:]
    shape, scale = of(fit_tail(distances, size=20))
    with np.errstate(over="ignore"):  # on scipy's way
        theirs = weibull_min.fit(tail - tail[0] + SHIFT, 0.9 * shape, floc=0, scale=SHIFT)
    assert (shape, scale) == (pytest.approx(theirs[0], rel=1e-4), pytest.approx(theirs[2], rel=1e-8))


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100), st.integers(3, 60))
def test_no_tail_nearby_is_likelier_and_shares_are_scipys(seed, spread, count):
    distances = np.random.default_rng(seed).gamma(5, spread, count)
    tail = np.sort(distances)[-20:]
    ours = fit_tail(distances, size=20)
    shape, scale = of(ours)
    moved = tail - tail[0] + SHIFT
    for more, wider in ((1.02, 0), (0.98, 0), (1, 0.02), (1, -0.02)):
        assert likelihood(moved, shape * more, scale * (1 + wider / shape)) < likelihood(moved, shape, scale)
    asked = np.linspace(0, tail[-1], 9)
    assert ours.below(asked) == pytest.approx(weibull_min.cdf(asked - tail[0] + SHIFT, shape, scale=scale), abs=1e-6)


def test_pytorch_oods_openmax(clouds, pytorch_ood):
    from pytorch_ood.detector.openmax.numpy import OpenMax as Theirs

    right = clouds.logits.argmax(axis=1) == clouds.labels
    theirs = Theirs(tailsize=20, alpha=3).fit(clouds.logits[right], clouds.labels[right])
    fitted = OpenMax().fit(None, clouds.logits, clouds.labels)
    assert fitted.strangeness(None, clouds.query_logits) == pytest.approx(
        theirs.predict(clouds.query_logits)[:, 0], abs=1e-4
    )
    two = OpenMax(alpha=2).fit(None, clouds.logits, clouds.labels).strangeness(None, clouds.query_logits)
    theirs = Theirs(tailsize=20, alpha=2).fit(clouds.logits[right], clouds.labels[right])
    assert two == pytest.approx(theirs.predict(clouds.query_logits)[:, 0], abs=1e-4)


def test_the_formula_written_out():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    logits = 6 * np.eye(3)[labels] + rng.normal(size=(90, 3))
    query = np.array([5.0, 2.0, -1.0])
    right = logits.argmax(axis=1) == labels
    weights = {0: 1.0, 1: 2 / 3, 2: 1 / 3}  # by rank; the query's classes are in order
    unknown, kept = 0.0, []
    for index in range(3):
        own = logits[right & (labels == index)]
        mean = own.mean(axis=0)
        share = fit_tail(np.linalg.norm(own - mean, axis=1), size=20).below(np.linalg.norm(query - mean)[None])[0]
        kept.append(query[index] * (1 - weights[index] * share))
        unknown += query[index] * weights[index] * share
    expected = np.exp(unknown) / (np.exp(unknown) + np.exp(kept).sum())
    found = OpenMax().fit(None, logits, labels).strangeness(None, [query])
    assert found == pytest.approx([expected], rel=1e-9)


def test_only_correctly_classified_images_count_and_their_order_does_not(clouds):
    before = OpenMax().fit(None, clouds.logits, clouds.labels).strangeness(None, clouds.query_logits)
    wrong = np.array([[9.0, 0.0, 0.0]] * 5)
    more, labels = np.vstack([wrong, clouds.logits]), np.append([1] * 5, clouds.labels)
    order = np.random.default_rng(0).permutation(len(labels))
    after = OpenMax().fit(None, more[order], labels[order]).strangeness(None, clouds.query_logits)
    assert after == pytest.approx(before, rel=1e-9)


def test_far_from_every_class_is_unknown_and_a_typical_image_is_not(clouds):
    fitted = OpenMax().fit(None, clouds.logits, clouds.labels)
    assert fitted.strangeness(None, [[90.0, 90.0, 90.0]]) == pytest.approx([1])
    typical = fitted.strangeness(None, fitted.means)
    assert (typical < 0.05).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g, t: (None, t), "openmax needs logits"),
        (lambda g, t: (g, None), "openmax needs the labels"),
        (lambda g, t: (g[:, :1], t * 0), "two or more classes"),
        (lambda g, t: (g[:4], np.array([0, 0, 0, 1])), "at least 3 training images per class, got 0 of class 2"),
        (lambda g, t: (-g, t), "3 correctly classified .* per class, got . of class"),
        (lambda g, t: (10 * np.eye(3)[t], t), "distances that differ, got 20 of 0"),
    ],
)
def test_training_images_it_refuses(clouds, change, message):
    with pytest.raises(InvalidInput, match=message):
        OpenMax().fit(None, *change(clouds.logits, clouds.labels))


def test_settings_and_other_classes_are_refused(clouds):
    for settings, message in (({"tail": 2}, "tail must be 3"), ({"alpha": 0}, "alpha must be 1")):
        with pytest.raises(InvalidInput, match=message):
            OpenMax(**settings)
    with pytest.raises(InvalidInput, match="at most the number of classes, 3, got 4"):
        OpenMax(alpha=4).fit(None, clouds.logits, clouds.labels)
    with pytest.raises(InvalidInput, match="the 3 classes it was fitted to"):
        OpenMax().fit(None, clouds.logits, clouds.labels).strangeness(None, np.zeros((2, 4)))
