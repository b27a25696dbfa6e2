from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosight.errors import InvalidInput
from cosight.trials import leaderboard  # noqa: F401  registers the format
from cosight.trials.formats import formats
from cosight.trials.spaces import label_space, label_spaces
from cosight.trials.table import make_trials

FORMAT = formats["leaderboard"]
SPACE = label_spaces["visalign-11"]
UNSURE = [0.1, 0.3, 0, 0, 0, 0, 0, 0, 0, 0.1, 0.5]


@pytest.fixture
def file(tmp_path):
    """Write JSON (or text as it is) to NAME and return the path."""

    def write(content, name: str = "vit.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def read_one(path):
    return FORMAT.read([path]).frame.row(0, named=True)


def test_eleven_numbers_become_probabilities_abstention_and_response(file):
    row = read_one(file({"tiger_01.png": UNSURE}))
    assert (row["observer"], row["kind"], row["experiment"]) == ("model:vit", "model", "visalign")
    assert (row["image"], row["truth"]) == ("tiger_01.png", None)
    assert row["probabilities"] == pytest.approx([0.2, 0.6, 0, 0, 0, 0, 0, 0, 0, 0.2], abs=1e-7)  # p10 / (1 - a)
    assert row["abstention"] == 0.5
    assert row["response"] == "zebra"  # the likeliest class: gamma is applied when scoring


@pytest.mark.parametrize("value", [None, [0] * 10 + [1], [0] * 10 + [7.5]])
def test_a_hard_refusal(file, value):
    row = read_one(file({"a.png": value}))
    assert (row["response"], row["abstention"], row["probabilities"]) == ("abstain", 1.0, None)


@pytest.mark.parametrize("scale", [2, 1e-3, 1e300, 1e-300])
def test_renormalised_on_reading(file, scale):
    one, many = (read_one(file({"a.png": [x * factor for x in UNSURE]})) for factor in (1, scale))
    assert many["probabilities"] == pytest.approx(one["probabilities"], rel=1e-6)
    assert many["abstention"] == pytest.approx(one["abstention"], rel=1e-12)


def test_numbers_too_large_to_sum_are_shares_all_the_same(file):
    row = read_one(file({"a.png": [1.7e308] * 11}))
    assert row["abstention"] == pytest.approx(1 / 11)
    assert row["probabilities"] == pytest.approx([0.1] * 10)


def test_files_are_models_and_rows_keep_their_order(file):
    paths = [file({"b.png": UNSURE, "a.png": None}, "b/swin.json"), file({"a.png": UNSURE}, "a/vit.v2.json")]
    trials = FORMAT.read(paths)
    assert trials.frame["observer"].to_list() == ["model:swin", "model:swin", "model:vit.v2"]
    assert trials.frame["image"].to_list() == ["b.png", "a.png", "a.png"]
    assert [source["file"] for source in trials.sources] == ["swin.json", "vit.v2.json"]
    assert trials.space is SPACE


def test_a_tie_goes_to_the_first_class(file):
    assert read_one(file({"a.png": [0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]}))["response"] == "zebra"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"a.png": UNSURE, "b.png": UNSURE[:10]}, r"vit\.json, image 'b\.png': there are 11 numbers.*got 10"),
        ({"b.png": [*UNSURE, 0]}, r"image 'b\.png': there are 11 numbers.*got 12"),
        ({"b.png": []}, r"image 'b\.png': there are 11 numbers.*got 0"),
        ({"b.png": [-0.1, *UNSURE[1:]]}, r"image 'b\.png': numbers are finite and not negative, got -0\.1"),
        ({"b.png": [float("nan"), *UNSURE[1:]]}, r"image 'b\.png': numbers are finite.*got nan"),
        ({"b.png": [float("inf"), *UNSURE[1:]]}, r"image 'b\.png': numbers are finite.*got inf"),
        ({"b.png": [10**400, *UNSURE[1:]]}, r"image 'b\.png': numbers are finite.*got 1000"),
        ({"b.png": [0] * 11}, r"image 'b\.png': the numbers sum to more than 0.*null for a refusal"),
        ({"b.png": ["0.1", *UNSURE[1:]]}, r"image 'b\.png': the value is a list of 11 numbers or null"),
        ({"b.png": [True, *UNSURE[1:]]}, r"image 'b\.png': the value is a list of 11 numbers or null"),
        ({"b.png": [None] * 11}, r"image 'b\.png': the value is a list of 11 numbers or null"),
        ({"b.png": "abstain"}, r"image 'b\.png': the value is a list.*got \"abstain\""),
        ({"b.png": {"tiger": 1}}, r"image 'b\.png': the value is a list"),
        ([UNSURE], r"vit\.json: a leaderboard file is one object.*got a list"),
        ({}, r"vit\.json: a leaderboard file is one object.*got an empty object"),
        ("null", r"vit\.json: a leaderboard file is one object"),
        ('{"a.png": null', r"vit\.json: a leaderboard file is JSON text"),
        ('{"a.png": null, "b.png": null, "a.png": null}', r"vit\.json: an image has one entry, got 'a\.png'"),
        (r'{"\ud800.png": null}', r"vit\.json: a leaderboard file is JSON text"),
        ("[" * 100_000, r"vit\.json: a leaderboard file is JSON text"),
    ],
)
def test_a_bad_file_is_named_with_the_image(file, content, words):
    with pytest.raises(InvalidInput, match=words):
        FORMAT.read([file(content)])


def test_two_files_of_one_name_are_refused(file):
    paths = [file({"a.png": None}, "a/vit.json"), file({"a.png": None}, "b/vit.json")]
    with pytest.raises(InvalidInput, match="named after its model, got two called 'vit'; rename one"):
        FORMAT.read(paths)


# ---- writing


def trial(**changes):
    one_hot = [1.0] + [0.0] * 9
    row = {"observer": "model:vit", "kind": "model", "image": "a.png", "response": "tiger", "probabilities": one_hot}
    return {**row, "abstention": 0.25, **changes}


def table(*rows, space=SPACE):
    kinds = {"probabilities": pl.List(pl.Float32), "abstention": pl.Float64, "image": pl.String, "response": pl.String}
    return make_trials(pl.DataFrame(list(rows), schema_overrides=kinds), space=space)


REFUSAL = {"response": "abstain", "probabilities": None}


def test_written_in_the_order_of_rows_with_null_for_a_refusal(tmp_path):
    rows = [
        trial(image="b.png"),
        trial(image="a.png", abstention=1.0, **REFUSAL),
        trial(image="é.png", abstention=None),
    ]
    FORMAT.write(table(*rows), tmp_path / "vit.json")
    written = json.loads((tmp_path / "vit.json").read_text())
    assert list(written) == ["b.png", "a.png", "é.png"]
    assert written["b.png"] == [0.75] + [0.0] * 9 + [0.25]
    assert written["a.png"] is None
    assert written["é.png"] == [1.0] + [0.0] * 10  # no abstention counts as 0


def test_a_space_of_the_same_answers_will_do(tmp_path):
    FORMAT.write(table(trial(), space=label_space(",".join(SPACE.answers))), tmp_path / "vit.json")
    assert len(FORMAT.read([tmp_path / "vit.json"])) == 1


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [trial(), trial(observer="model:b", image="b.png")],
            r"one observer, got 2 \(model:vit, model:b\); choose with",
        ),
        ([trial(), trial()], r"one entry per image, got 'a\.png' twice"),
        ([trial(image=None, stimulus="0f")], "needs the image name of every trial"),
        ([trial(probabilities=None)], r"probabilities or a hard refusal.*got response tiger.*image 'a\.png'"),
        ([trial(**{**REFUSAL, "response": None})], "probabilities or a hard refusal.*got response None"),
        ([trial(**REFUSAL)], r"probabilities or a hard refusal.*abstention 0\.25"),
    ],
)
def test_what_a_leaderboard_file_cannot_hold(tmp_path, rows, words):
    with pytest.raises(InvalidInput, match=words):
        FORMAT.write(table(*rows), tmp_path / "vit.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("space", [None, label_space(",".join(reversed(SPACE.answers)))])
def test_another_label_space_is_refused(tmp_path, space):
    with pytest.raises(InvalidInput, match=r"needs the label space visalign-11, got (none|given); declare it"):
        FORMAT.write(table(trial(), space=space), tmp_path / "vit.json")


def test_no_trials_are_refused(tmp_path):
    trials = table(trial())
    empty = make_trials(trials.frame.clear(), space=SPACE)
    with pytest.raises(InvalidInput, match="one observer, got 0"):
        FORMAT.write(empty, tmp_path / "vit.json")


NUMBERS = st.lists(st.floats(0, 1e6), min_size=11, max_size=11).filter(any)
FILES = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.none() | NUMBERS, min_size=1, max_size=5)


@given(content=FILES)
def test_read_write_read_gives_the_same_table(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("board")
    first, again = folder / "vit.json", folder / "again" / "vit.json"
    first.write_text(json.dumps(content))
    before = FORMAT.read([first])
    FORMAT.write(before, again)
    after = FORMAT.read([again])
    assert FORMAT.recognises(again, again.read_bytes())
    for a, b in zip(before.frame.rows(named=True), after.frame.rows(named=True), strict=True):
        assert {k: v for k, v in a.items() if k not in ("probabilities", "abstention", "response")}.items() <= b.items()
        assert (a["probabilities"] is None) == (b["probabilities"] is None)
        assert b["abstention"] == pytest.approx(a["abstention"], abs=1e-12)
        if a["probabilities"] is not None:
            np.testing.assert_allclose(b["probabilities"], a["probabilities"], rtol=3e-7, atol=1e-38)
            assert a["probabilities"][SPACE.classes.index(b["response"])] >= max(a["probabilities"]) * (1 - 3e-7)


# ---- recognising

LONG = {f"{i:05}.png": UNSURE for i in range(3000)}


@pytest.mark.parametrize("size", [300, 500, 501, 502, 503, 1000, 1 << 16])
@pytest.mark.parametrize("indent", [None, 1])
def test_recognised_from_its_first_bytes(size, indent):
    assert FORMAT.recognises(Path("x.json"), json.dumps(LONG, indent=indent).encode()[:size])


@pytest.mark.parametrize(
    "text",
    [
        '{"a.png": null}',
        ' \n{ "a.png" : null , "b.png":[0,1]}\n',
        '\ufeff{"a.png": null}',
        '{"a.png": [NaN, -1e-3, Infinity]}',  # bad numbers: read says which
        json.dumps({'quoted "é\\.png': UNSURE}),
        '{"a.png": null, "b\\',  # cut inside an escape
    ],
)
def test_looks_like_a_leaderboard_file(text):
    assert FORMAT.recognises(Path("x.json"), text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1, 2]",
        "file,response\n",
        '{"@context": "https://schema.org/", "@type": "Dataset", "variableMeasured": ["rt"]}',
        '{"plan": {"models": []}, "seeds": [1, 2]}',
        '{"seeds": [1, 2], "git": null, "plan": {"models": []}}',
        '{"note": null, "version": 1}',
        '{"a.png": ["0.1"]}',
        '{"a.png": null} {"b.png": null}',
        '{"a": {"b": null}}',
    ],
)
def test_other_json_is_not_taken_for_one(text):
    assert not FORMAT.recognises(Path("x.json"), text.encode())


def test_recognising_takes_no_time_on_hostile_text():
    start = time.perf_counter()
    for text in ('{"a": null, "' + "\\a" * 20_000 + '" "', '{"a": [' + "1," * 30_000 + "x", "{" + " " * 60_000 + "x"):
        assert not FORMAT.recognises(Path("x.json"), text.encode())
    assert time.perf_counter() - start < 20  # milliseconds, unless an expression backtracks: then years
