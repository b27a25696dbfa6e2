"""The command line, killed at a chosen moment. A process that forks one for each line it reads from standard input.

A line is JSON: `arguments` of `cosight`, and where to be killed: at the `count`-th file that is written,

* half      when half of its draft is written
* flushed   when the draft is whole and on the disk, but has not taken the file's place
* replaced  right after it has taken the file's place
* removing  when folders are removed, after the first file in one

or, from outside, after so many `seconds`. With `largest`, no file may grow beyond so many bytes, as if the disk were
full. `environment` is what else it finds there.

The answer is a line too: how it ended (as subprocess' returncode), the files that had been written, in order, and what
it told on standard error.
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

DRAFT_SUFFIX = ".cosight-draft"


def _kill():
    os.kill(os.getpid(), signal.SIGKILL)


def _sabotage(moment, count, journal):
    """Every file is written as `atomic_write` does it: the draft gets its permissions when it is whole, then moves."""
    chmod, replace, rmtree = Path.chmod, Path.replace, shutil.rmtree
    begun = 0

    def whole(path, mode):
        nonlocal begun
        begun += path.name.endswith(DRAFT_SUFFIX)
        if moment == "half" and begun == count:
            os.truncate(path, path.stat().st_size // 2)
            _kill()
        return chmod(path, mode)

    def move(path, target):
        if moment == "flushed" and begun == count:
            _kill()
        moved = replace(path, target)
        with journal.open("a") as lines:
            lines.write(f"{target}\n")
        if moment == "replaced" and begun == count:
            _kill()
        return moved

    def remove(folder):
        if moment == "removing":
            sorted(Path(folder).iterdir())[0].unlink()
            _kill()
        return rmtree(folder)

    Path.chmod, Path.replace, shutil.rmtree = whole, move, remove


def _attempt(task, journal):
    told = os.open(journal.with_suffix(".told"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(told, 2)
    os.environ.update(task.get("environment", {}))
    if "largest" in task:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write fails instead
        resource.setrlimit(resource.RLIMIT_FSIZE, (task["largest"], resource.RLIM_INFINITY))
    sys.argv = ["cosight", *task["arguments"]]
    _sabotage(task.get("moment"), task.get("count"), journal)
    main()


def _forked(task, journal):
    child = os.fork()
    if not child:
        try:
            _attempt(task, journal)
        except SystemExit as ended:
            os._exit(int(ended.code or 0))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    if "seconds" in task:
        time.sleep(task["seconds"])
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    import cosight.runs.evaluate
    import cosight.scoring.score  # noqa: F401 (before the fork, so that no child pays for it)
    from cosight.cli.app import main

    for line in sys.stdin:
        task = json.loads(line)
        journal = Path(task["journal"])
        journal.write_text("")
        ended = _forked(task, journal)
        told = journal.with_suffix(".told").read_text()
        sys.stdout.write(json.dumps({"ended": ended, "written": journal.read_text().splitlines(), "told": told}) + "\n")
        sys.stdout.flush()
