from __future__ import annotations

import errno

import pytest

from cosight.errors import InvalidInput
from cosight.trials.files import new_file, new_folder


def break_off(file):
    file.write_text("half")
    raise RuntimeError("in the middle of writing")


def test_a_file_appears_whole_and_readable_with_its_parents(tmp_path):
    target = tmp_path / "a" / "b" / "trials.csv"
    with new_file(target) as draft:
        draft.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert target.stat().st_mode & 0o777 == 0o644
    assert [f.name for f in target.parent.iterdir()] == ["trials.csv"]


def test_an_error_while_writing_a_file_leaves_what_was_there(tmp_path):
    target = tmp_path / "trials.csv"
    target.write_text("before")
    with pytest.raises(RuntimeError), new_file(target) as draft:
        break_off(draft)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_while_filling_a_folder_leaves_nothing_behind(tmp_path):
    with pytest.raises(RuntimeError), new_folder(tmp_path / "out") as draft:
        break_off(draft / "half.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_appears_whole_where_there_was_none_or_an_empty_one(tmp_path, exists):
    target = tmp_path / "a" / "out"
    if exists:
        target.mkdir(parents=True)
    with new_folder(target) as draft:
        (draft / "inner").mkdir()
        (draft / "inner" / "whole.csv").write_text("whole")
    assert (target / "inner" / "whole.csv").read_text() == "whole"
    assert target.stat().st_mode & 0o777 == 0o755
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_that_holds_something_is_refused_and_kept(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="must be new or empty"), new_folder(tmp_path):
        pytest.fail("the block must not be entered")
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_file_is_no_folder(tmp_path):
    target = tmp_path / "out"
    target.write_text("a file")
    with pytest.raises(InvalidInput, match="name another"), new_folder(target):
        pytest.fail("the block must not be entered")
    assert target.read_text() == "a file"


def test_a_full_disk_is_told_with_the_file_that_did_not_fit(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '.*trials\.csv'"), new_file(tmp_path / "trials.csv"):
        raise OSError(errno.ENOSPC, "No space left on device")
