"""Classes in another order: probabilities and gold labels are reordered by class name, or refused."""

from __future__ import annotations

import polars as pl
import pytest

from cosight.errors import InvalidInput
from cosight.trials import LabelSpace, label_space, label_spaces, make_trials, read, write
from cosight.trials.manifest import manifest_frame, manifest_space, order_gold, with_manifest_space

ABC = LabelSpace("abc", ("a", "b", "c"))
TABLE = {
    "observer": "model:m",
    "kind": "model",
    "image": ["1.png", "2.png", "3.png", "4.png"],
    "truth": ["a", "b", "c", "c"],
    "response": ["a", "b", "b", "abstain"],
    "probabilities": [[0.5, 0.25, 0.25], [0.25, 0.75, 0.0], [0.0, 0.5, 0.5], [0.0, 0.25, 0.75]],
}
REORDERED = [[0.25, 0.5, 0.25], [0.0, 0.25, 0.75], [0.5, 0.0, 0.5], [0.75, 0.0, 0.25]]  # c, a, b


def trials(space=ABC, **columns):
    return make_trials(pl.DataFrame(TABLE | columns), space=space)


@pytest.mark.parametrize("target", ["t.parquet", "psych-ds"])
def test_labels_in_another_order_reorder_the_probabilities(target, tmp_path):
    path = tmp_path / target
    write(trials(), path, to="psych-ds" if target == "psych-ds" else None)
    found = read(path, labels="c,a,b")
    assert found.space.classes == ("c", "a", "b")
    assert found.frame["probabilities"].to_list() == REORDERED
    assert found.notices == ()
    assert found.with_space(ABC).frame["probabilities"].to_list() == TABLE["probabilities"]


def test_a_leaderboard_file_is_reordered_too(tmp_path):
    (tmp_path / "m.json").write_text('{"1.png": [0.5, 0.3, 0, 0, 0, 0, 0, 0, 0, 0.2, 0]}')
    classes = label_spaces["visalign-11"].classes
    found = read(tmp_path / "m.json", labels=",".join([*classes[::-1], "abstain"]))
    probabilities = found.frame["probabilities"][0].to_list()
    assert probabilities == pytest.approx([0.2, 0, 0, 0, 0, 0, 0, 0, 0.3, 0.5])
    assert found.frame["response"].to_list() == [classes[0]]


def test_convert_keeps_every_probability_with_its_class(cosight, tmp_path):
    write(trials(), tmp_path / "a.parquet")
    assert cosight("trials", "convert", tmp_path / "a.parquet", tmp_path / "b.parquet", "--labels", "c,a,b").code == 0
    assert read(tmp_path / "b.parquet").frame["probabilities"].to_list() == REORDERED


def test_other_classes_are_refused_with_what_is_missing_and_what_is_new(tmp_path, cosight):
    write(trials(), tmp_path / "a.parquet")
    done = cosight("trials", "show", tmp_path / "a.parquet", "--labels", "a,b,d,c,e")
    assert done.code == 2
    assert "not among them: d, e" in done.err
    with pytest.raises(InvalidInput, match="missing: c"):
        read(tmp_path / "a.parquet", labels="a,b,d")


def test_answers_without_probabilities_may_get_more_classes(tmp_path):
    write(trials(probabilities=None), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", labels="d,c,b,a").space.classes == ("d", "c", "b", "a")


def test_responses_that_do_not_fit_the_probabilities_are_counted(tmp_path):
    pl.DataFrame(TABLE).write_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", labels="a,b,c").notices == ()  # a tie is no misfit, nor is a refusal
    (notice,) = read(tmp_path / "a.parquet", labels="c,a,b").notices
    assert "2 of 3 responses are not the most probable class of their own probabilities" in notice
    (notice,) = read(tmp_path / "a.parquet", make_trials(pl.DataFrame(TABLE), space=label_space("c,a,b"))).notices
    assert notice.startswith(str(tmp_path))


def test_gold_labels_are_reordered_by_name():
    frame = manifest_frame([{"gold": [0.5, 0.3, 0.2, 0.0], "gold_counts": [5, 3, 2, 0]}, {"gold": [1, 0, 0]}, {}])
    found = order_gold(frame, ABC, label_space("c,a,b,abstain"))
    assert found["gold"].to_list() == [[0.2, 0.5, 0.3, 0.0], [0.0, 1.0, 0.0], None]
    assert found["gold_counts"].to_list() == [[2, 5, 3, 0], None, None]
    with pytest.raises(InvalidInput, match="not among them: d; missing: c"):
        order_gold(frame, ABC, label_space("a,b,d"))
    with pytest.raises(InvalidInput, match=r"gold label of 1\.png must have a number for each of a b c, got 2"):
        order_gold(manifest_frame([{"image": "1.png", "gold": [0.5, 0.5]}]), ABC, label_space("c,a,b"))


@pytest.mark.parametrize("space", [label_spaces["visalign-11"], label_space("dog,cat,abstain"), label_space("x,y,")])
def test_a_manifest_names_the_label_space_of_its_gold_labels(space):
    assert manifest_space(with_manifest_space({"settings": {}}, space)).answers == space.answers
