"""The documentation site: it builds without a warning, every link leads somewhere, and it needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

DOCS = Path(__file__).parent.parent / "docs"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site. Sphinx checks references between pages and executes the notebooks."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "-q", str(DOCS), str(folder)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@cache
def anchors(page):
    return {unescape(name) for name in re.findall(r'\sid="([^"]+)"', page.read_text(encoding="utf-8"))}


def test_every_link_leads_somewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    broken = []
    for page in pages:
        for link in set(re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = unquote(unescape(link)).partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".html" and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_no_page_needs_the_network(site):
    remote = r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//|<link[^>]+rel="stylesheet"[^>]+href="(?:https?:)?//'
    assert [page.name for page in site.rglob("*.html") if re.search(remote, page.read_text(encoding="utf-8"))] == []


def test_the_search_index_has_pages_and_functions(site):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for word in ("misclassification_agreement", "prolif", "visalign"):
        assert word in index
