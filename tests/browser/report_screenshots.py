"""Take the screenshots of reports that are in the README and the docs.

`python tests/browser/report_screenshots.py DEMO [FOLDER]` writes report-*.png (default: to docs/images).
DEMO is the folder of a finished `cosight demo`.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from PIL import Image as Pillow

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 1200
COLOURS = 256  # of a picture, so that it is small
PAIR = f"a={quote('cosight:vit-small@45', safe='')}&b={quote('simulated people')}&cell=01"


def main(demo: Path, target: Path = ROOT / "docs" / "images") -> None:
    """Open the pages and look."""
    sys.path.insert(0, str(ROOT))
    import cosight
    from tests.browser.visits import browsing

    with tempfile.TemporaryDirectory() as folder, browsing() as browser:
        people = cosight.demo("people", out=Path(folder) / "demo", progress=False).page
        own = cosight.report("sample:cue-conflict", out=Path(folder) / "report", progress=False).page
        shown = {
            "overview": (people, "", 1160),
            "disagreements": (demo / "report" / "index.html", f"disagree?set=1&{PAIR}", 1500),
            "leaderboard": (own, "", 1000),
        }
        for name, (page, route, height) in shown.items():
            tab = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme="light")
            tab.goto(f"{page.resolve().as_uri()}#/{route}")
            tab.wait_for_selector("html[data-ready]")
            tab.wait_for_load_state("networkidle")
            file = target / f"report-{name}.png"
            picture = Pillow.open(io.BytesIO(tab.screenshot(animations="disabled"))).convert("RGB")
            picture.quantize(COLOURS, method=Pillow.Quantize.MAXCOVERAGE).save(file, optimize=True)
            sys.stdout.write(f"{file}: {file.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
