"""Atomic files and folders, drafts, the folder lock, versions."""

from __future__ import annotations

import errno
import platform
import subprocess
import sys

import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.files import atomic_folder, atomic_write, is_locked, lock_folder, package_versions, remove_drafts


def break_off(file):
    file.write_text("half")
    raise RuntimeError("in the middle of writing")


def test_a_file_appears_whole_and_readable_with_its_parents(tmp_path):
    target = tmp_path / "a" / "b" / "trials.csv"
    with atomic_write(target) as draft:
        draft.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert target.stat().st_mode & 0o777 == 0o644
    assert [f.name for f in target.parent.iterdir()] == ["trials.csv"]


def test_an_error_while_writing_a_file_leaves_what_was_there(tmp_path):
    target = tmp_path / "trials.csv"
    target.write_text("before")
    with pytest.raises(RuntimeError), atomic_write(target) as draft:
        break_off(draft)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_while_filling_a_folder_leaves_nothing_behind(tmp_path):
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "out") as draft:
        break_off(draft / "half.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_appears_whole_where_there_was_none_or_an_empty_one(tmp_path, exists):
    target = tmp_path / "a" / "out"
    if exists:
        target.mkdir(parents=True)
    with atomic_folder(target) as draft:
        (draft / "inner").mkdir()
        (draft / "inner" / "whole.csv").write_text("whole")
    assert (target / "inner" / "whole.csv").read_text() == "whole"
    assert target.stat().st_mode & 0o777 == 0o755
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_with_files_is_refused_and_unchanged(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="must be new or empty"), atomic_folder(tmp_path):
        pytest.fail("the block must not be entered")
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_file_is_no_folder(tmp_path):
    target = tmp_path / "out"
    target.write_text("a file")
    with pytest.raises(InvalidInput, match="name another"), atomic_folder(target):
        pytest.fail("the block must not be entered")
    assert target.read_text() == "a file"


def test_the_error_of_a_full_disk_names_the_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device: '.*trials\.csv'"),
        atomic_write(tmp_path / "trials.csv"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_drafts_are_cleared_and_nothing_else(tmp_path):
    (tmp_path / "trials").mkdir()
    left = [tmp_path / "trials/a.parquet", tmp_path / ".lock", tmp_path / "notes.cosight-draft"]
    for path in [*left, tmp_path / ".a.cosight-draft", tmp_path / "trials/.b.cosight-draft"]:
        path.touch()
    (tmp_path / ".folder.cosight-draft").mkdir()
    (tmp_path / ".folder.cosight-draft/inside").touch()
    remove_drafts(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(left)
    assert not (tmp_path / ".folder.cosight-draft").exists()


def test_one_process_works_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("cosight.files._LOCK_SECONDS", 0.05)
    assert not is_locked(tmp_path)
    with lock_folder(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(InvalidInput, match="another process is writing"), lock_folder(tmp_path):
            pytest.fail("the block must not be entered")
    assert not is_locked(tmp_path)
    with lock_folder(tmp_path):
        pass


def test_a_killed_process_releases_its_lock(tmp_path):
    code = "import sys, pathlib, time; from cosight.files import lock_folder\n"
    code += "with lock_folder(pathlib.Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"locked\n"
        assert is_locked(tmp_path)
        process.kill()
        process.wait()
    assert not is_locked(tmp_path)


def test_versions_of_packages():
    versions = package_versions(["numpy", "no-such-package"])
    assert versions == {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "no-such-package": "not installed",
    }
