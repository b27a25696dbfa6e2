"""Confusion matrices from CSV files."""

import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.trials.confusion_tables import is_confusion_table, read_confusion_tables

SQUARE = "truth,cat,dog,cow\ncat,9,1,0\ndog,2,8,0\ncow,0,1,9\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="a.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_rows_and_columns_are_matched_by_name(write):
    one = write(SQUARE)
    other = write("\ufeff;cow;dog;na;cat\ndog;0;8.0;3;2\ncow;9;1;0;0\n\ncat;0;1;1;9\n", "b.csv")
    first, second = read_confusion_tables([one, other])
    assert (first.observer, first.classes, second.classes) == ("a", ("cat", "dog", "cow"), first.classes)
    assert first.counts.tolist() == [[9, 1, 0, 0], [2, 8, 0, 0], [0, 1, 9, 0]]
    assert second.counts.tolist() == [[9, 1, 0, 1], [2, 8, 0, 3], [0, 1, 9, 0]]


def test_what_is_a_confusion_matrix(write, tmp_path):
    assert is_confusion_table(write(SQUARE))
    assert is_confusion_table(str(write("truth,cat,dog\ncat,9,1\ncow,2,8\ndog,1,1\n")))  # a wrong one, to be named
    many = [f"class{i}" for i in range(1000)]
    rows = "".join(f"{name}{',0' * 1000}\n" for name in many)
    assert is_confusion_table(write(f",{','.join(many)}\n{rows}"))  # longer than what is looked at
    assert not is_confusion_table(write("subj,imagename,object_response,category\ns1,a.png,cat,dog\n"))
    assert not is_confusion_table(write("1,2\n3,4\n"))
    assert not is_confusion_table(write("one column\n"))
    assert not is_confusion_table(tmp_path)
    assert not is_confusion_table("sample:edges")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("truth,cat,dog\ncat,9,1\n", "a.csv: a confusion matrix has a row and a column per class, got no row for"),
        ("truth,cat,dog\ncat,9,1\ndog,2,8\ncow,1,1\n", "got no column for cow"),
        ("truth,cat,dog\ncat,9,-1\ndog,2,8\n", "row cat, column dog: a count must be a whole number, 0 or more"),
        ("truth,cat,dog\ncat,0.93,0.07\ndog,2,8\n", "got '0.93'; multiply fractions by the number of answers"),
        ("truth,cat,dog\ncat,9,many\ndog,2,8\n", "got 'many'"),
        ("truth,cat,dog\ncat,9,\ndog,2,8\n", "got ''"),
        ("truth,cat,dog\ncat,9\ndog,2,8\n", "row cat: there must be 2 counts, got 1"),
        ("truth,cat,cat\ncat,9,1\ncat,9,1\n", "a class has one row and one column, got two columns 'cat'"),
        ("truth,cat,dog\ncat,9,1\ncat,9,1\ndog,2,8\n", "got two rows 'cat'"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_one_line(text, message, write):
    with pytest.raises(InvalidInput) as error:
        read_confusion_tables([write(text)])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_several_matrices_are_about_the_same_classes(write, tmp_path):
    one, other = write(SQUARE), write("truth,cat,dog,pig\ncat,9,1,0\ndog,2,8,0\npig,0,1,9\n", "b.csv")
    with pytest.raises(InvalidInput, match=r"same classes, got cow only in .*a.csv and pig only in .*b.csv; rename"):
        read_confusion_tables([one, other])
    (tmp_path / "other").mkdir()
    with pytest.raises(InvalidInput, match="got two files 'a'; rename one"):
        read_confusion_tables([one, write(SQUARE, "other/a.csv")])
    assert np.array_equal(read_confusion_tables([one])[0].counts[:, :3], [[9, 1, 0], [2, 8, 0], [0, 1, 9]])
