"""The digits benchmark: stored digits, drawings, categories, splits and resumed builds."""

import importlib.util
import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier

from cosight.benchmarks import building
from cosight.benchmarks.digits.digits_builder import build_digits, make_digits_builder
from cosight.benchmarks.digits.drawing import (
    LETTERS,
    NEAR_MISSES,
    SHAPES,
    STYLES,
    TEXTURES,
    digit_ink,
    digits_attribution,
    draw_glyph,
    draw_near_miss,
    draw_styled_digit,
    draw_texture,
    join_digits,
    possible_joins,
    render,
    stored_digits,
)
from cosight.benchmarks.digits.linear_attack import EPS, attack, fit_linear_classifier
from cosight.benchmarks.visalign.categories import category_rows, parse_counts, write_category_sheet
from cosight.errors import InvalidInput
from cosight.humans.simulated.panel import Panel, simulated_trials
from cosight.stimuli.images import read_image
from cosight.stimuli.sets import check_splits, read_set, verify

FEW = parse_counts("1=10,2=12,3=10,4=9,5=10,6=18,7=15,8=40,train=200,distractors=12")


OPEN = 200 + 2 * 124  # images of the open set


def tree(folder: Path):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("digits") / "set"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building.secrets, "randbits", lambda bits: 7)
        return build_digits(out, counts=FEW, closed=out.with_name("secret")), out


@pytest.fixture(scope="module")
def frame(whole):
    """All rows with all columns: those of the open set and of the secret manifest."""
    own = whole[0].generated.stimuli.frame.filter(pl.col("split") != "closed")
    return pl.concat([own, whole[0].closed.stimuli.frame])


def test_the_stored_digits_are_those_of_scikit_learn(tmp_path):
    reference = load_digits()
    assert (stored_digits().cells == reference.images).all()
    assert (stored_digits().labels == reference.target).all()
    spec = importlib.util.spec_from_file_location("store_digits", Path(__file__).with_name("store_digits.py"))
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.store(tmp_path / "digits.npz")
    with np.load(tmp_path / "digits.npz") as stored:
        assert (stored["images"] == stored_digits().cells).all()
    packaged = files("cosight.benchmarks.digits").joinpath("digits.npz").read_bytes()
    assert len(packaged) < 150_000
    assert digits_attribution()["licence"] == "CC BY 4.0"


def test_as_many_of_each_category_as_asked_for(whole, frame):
    assert whole[0].generated.dropped == {}
    for split in ("calibration", "test", "closed"):
        counts = dict(frame.filter(split=split)["category"].value_counts().iter_rows())
        assert counts == FEW.categories
    train = frame.filter(split="train")
    assert train["truth"].value_counts()["count"].to_list() == [20] * 10
    assert train["category"].null_count() == 200
    assert verify(whole[0].generated.stimuli).intact


def test_splits_are_apart(whole, frame):
    check_splits(whole[0].generated.stimuli)
    assert frame["stimulus"].n_unique() == frame.height  # no image occurs twice
    for _, part in frame.filter(pl.col("parent").is_not_null()).group_by("parent"):
        assert part["split"].n_unique() == 1


def test_truth_and_gold_follow_from_the_group(frame):
    assert set(frame.filter(group="must-abstain")["truth"]) == {"abstain"}
    acting = frame.filter(pl.col("group").is_in(["must-act", "uncertain"]))
    assert (acting["truth"] == acting["original"]).all()
    for row in frame.filter(pl.col("group") != "uncertain").iter_rows(named=True):
        place = 10 if row["truth"] == "abstain" else int(row["truth"])
        assert row["gold"] == [float(answer == place) for answer in range(11)]
        assert row["gold_counts"] is None


def test_uncertain_gold_is_the_simulated_panels_and_says_so(whole, frame):
    doubtful = frame.filter(group="uncertain")
    for row in doubtful.iter_rows(named=True):
        assert sum(row["gold_counts"]) == 134
        assert np.allclose(row["gold"], np.array(row["gold_counts"]) / 134)
        assert json.loads(row["parameters"])["gold"] == "simulated"
    assert whole[0].generated.stimuli.facts["settings"]["simulated panel"]["people"] == 134
    trials = simulated_trials(whole[0].generated.stimuli, Panel(), persons=134).frame
    one = doubtful.row(0, named=True)
    said = trials.filter(stimulus=one["stimulus"])["response"].to_list()
    assert said.count("abstain") == one["gold_counts"][10]


def test_category_3_fools_the_model_it_was_made_against_and_no_smaller_eps_does(frame, whole):
    model = make_digits_builder(counts=FEW).model
    for row in frame.filter(category=3, split="test").iter_rows(named=True):
        image = read_image(whole[1] / row["file"])
        assert model.answer(image) != int(row["truth"])
        clean = next(render(digit_ink(n)) for n in range(1797) if on_paper_digest(n) == row["parent"])
        change = np.abs(image.astype(int) - clean).max()
        assert change == round(255 * json.loads(row["parameters"])["eps"])
        assert model.answer(clean) == int(row["truth"])


def on_paper_digest(place, cache={}):  # noqa: B006
    from cosight.stimuli.images import digest

    if place not in cache:
        cache[place] = digest(render(digit_ink(place)))
    return cache[place]


def test_the_attacked_model_is_as_good_as_a_reference():
    images = np.stack([render(digit_ink(n)) for n in range(600)]).reshape(600, -1) / 255
    labels = stored_digits().labels[:600].astype(int)
    ours = fit_linear_classifier(images[:400], labels[:400].tolist(), 10)
    theirs = RidgeClassifier(alpha=10.0).fit(images[:400], labels[:400])
    right = (ours.logits(images[400:]).argmax(axis=1) == labels[400:]).mean()
    assert right > theirs.score(images[400:], labels[400:]) - 0.04
    image, label = render(digit_ink(0)), int(labels[0])
    step = 1e-4  # the gradient against a finite difference, at the pixel where it is largest
    gradient = ours.gradient(image, label)
    at = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)

    def loss(pixels):
        logits = ours.logits(pixels.reshape(1, -1))[0]
        return np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label]

    moved = image / 255
    moved[at] += step
    assert (loss(moved) - loss(image / 255)) / step == pytest.approx(gradient[at], rel=1e-2)
    with pytest.raises(building.UnusableCandidate, match="gets the clean image wrong"):
        attack(ours, image, (label + 1) % 10)
    assert attack(ours, image, label)[1] in EPS


@pytest.mark.slow
@pytest.mark.parametrize("after", [150, OPEN + 30])
def test_a_killed_build_goes_on_to_the_same_bytes(whole, tmp_path, monkeypatch, after):
    out, drawn = tmp_path / "set", []
    original = building.BuildRecipe.make

    def dying(self, unit, jobs):
        drawn.append(unit.name)
        if len(drawn) == after:
            raise KeyboardInterrupt
        return original(self, unit, jobs)

    monkeypatch.setattr(building.BuildRecipe, "make", dying)
    monkeypatch.setattr(building.secrets, "randbits", lambda bits: 7)
    with pytest.raises(KeyboardInterrupt):
        build_digits(out, counts=FEW, closed=tmp_path / "secret")
    monkeypatch.undo()
    monkeypatch.setattr(building.secrets, "randbits", lambda bits: 7 if after < OPEN else 8)  # the seed is drawn once
    again = build_digits(out, counts=FEW, closed=tmp_path / "secret")
    assert again.generated.present + again.closed.present == after - 1
    assert tree(out) == tree(whole[1])
    assert tree(tmp_path / "secret") == tree(whole[1].with_name("secret"))


@pytest.mark.slow
def test_the_closed_set_can_come_later_and_changes_nothing(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(building.secrets, "randbits", lambda bits: 7)
    first = build_digits(tmp_path / "set", counts=FEW).generated.stimuli.frame
    assert set(first["split"]) == {"train", "calibration", "test"}
    build_digits(tmp_path / "set", counts=FEW, closed=tmp_path / "secret")
    assert tree(tmp_path / "set") == tree(whole[1])


def test_another_seed_is_another_set(whole, tmp_path):
    few = parse_counts("3=0,train=0,distractors=0", base=FEW)
    other = build_digits(tmp_path / "set", counts=few, seed=1).generated.stimuli.frame.filter(pl.col("category") != 1)
    same = set(other["stimulus"]) & set(whole[0].generated.stimuli.frame["stimulus"])
    assert len(same) < 0.03 * other.height  # contrast is not random: one digit at one severity is one image
    with pytest.raises(InvalidInput, match="was made with seed 1, got 0"):
        build_digits(tmp_path / "set", counts=few, seed=0)


def test_distractors_are_a_set_of_their_own(whole):
    distractors = read_set(whole[1] / "distractors")
    assert len(distractors) == 12
    assert set(distractors.frame["truth"]) == {"abstain"}
    for row in distractors.frame.iter_rows(named=True):
        told = json.loads(row["parameters"])
        assert told["clear"] == (row["level"] <= 2 and row["kind"] != "cropping")


def test_the_datasheet_tells_composition_sources_and_licences(whole):
    text = (whole[1] / "DATASHEET.md").read_text()
    assert (
        "| 8 corrupted | uncertain | images of the classes, corrupted or cropped at severities 1 to 10 | 0 | 40 |"
        in text
    )
    assert "CC BY 4.0" in text
    assert "simulated" in text
    assert str(whole[1]) not in text


def test_the_sheet_shows_every_category(whole, tmp_path):
    rows = category_rows(whole[0].generated.stimuli)
    assert [row.name for row in rows][:7] == [
        *("1 clean", "2 background", "3 attacked", "4 other", "5 hybrid", "6 near-miss", "7 style"),
    ]
    write_category_sheet(whole[0].generated.stimuli, tmp_path / "sheet.png")
    assert read_image(tmp_path / "sheet.png").ndim == 3


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ("1=300,3=0", "category 1 of calibration needs 300 sources, got"),
        ("train=1790,3=0", "training images need 179 of each class, got 178 of 0"),
        ("train=5", "classifier of all ten digits, got 5 training images"),
    ],
)
def test_more_than_there_are_digits_is_refused(counts, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        build_digits(tmp_path / "set", counts=parse_counts(counts))
    assert not (tmp_path / "set").exists()


def test_every_glyph_is_drawn_and_inside_the_picture():
    rng = np.random.default_rng(0)
    inks = [draw_glyph(text, rng) for text in LETTERS + SHAPES]
    inks += [draw_near_miss(letter, rng) for letter in NEAR_MISSES]
    inks += [draw_styled_digit(str(digit), style, rng) for digit in range(10) for style in STYLES]
    for ink in inks:
        assert ink.shape == (32, 32)
        assert 0.02 < ink.mean() < 0.6
        assert max(ink[0].max(), ink[-1].max(), ink[:, 0].max(), ink[:, -1].max()) < 0.5
    blank = draw_glyph("\N{WHITE SQUARE}", rng)  # drawn instead of a glyph that a font lacks
    assert all(not np.allclose(ink, blank, atol=0.2) for ink in inks)


def test_near_misses_are_no_letters_of_category_4():
    assert not set(NEAR_MISSES) & set(LETTERS)
    assert {like for like, _ in NEAR_MISSES.values()} == set("0123456789")


@pytest.mark.parametrize("name", TEXTURES)
def test_textures_span_their_range_and_follow_the_generator(name):
    first, again, other = (draw_texture(name, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert (first.min(), first.max()) == (0, 1)
    assert (first == again).all()
    assert (first != other).any()


def test_hybrids_hold_both_digits():
    labels = stored_digits().labels
    four, seven = (digit_ink(int(np.flatnonzero(labels == digit)[0])) for digit in (4, 7))
    assert possible_joins("4", "4") == ()
    assert possible_joins("7", "1") == ("beside",)
    crossed = join_digits(four, seven, "crossed")
    assert (crossed >= four).all()
    beside = join_digits(four, seven, "beside")
    assert beside[:, :14].sum() > 10
    assert beside[:, 18:].sum() > 10
    with pytest.raises(InvalidInput, match="got 'under'"):
        join_digits(four, seven, "under")
