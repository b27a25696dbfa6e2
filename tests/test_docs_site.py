"""The documentation site: it builds without a warning, every link leads somewhere, and it needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlencode

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


# What a researcher might type, and the pages of which one must be among the first three results. The order of results
# (docs/scorer.js) was chosen with the first nine; for the others, pages got headings and words that they lacked.
QUERIES = {
    "evaluate my nn.module cue-conflict": ("tutorials/own-network",),
    "own csv": ("guides/own-csv",),
    "corrupted photos": ("guides/corrupted-photos",),
    "collect labels colleagues": ("tutorials/first-study",),
    "figure": ("guides/figure",),
    "interrupted run resume": ("guides/interrupted-run",),
    "is the difference real": ("guides/compare-two-models",),
    "which images": ("guides/which-images",),
    "vision-language model": ("guides/vlm",),
    "install": ("guides/install",),
    "error consistency formula": ("reference/measures", "reference/api/measures", "explanation/concepts"),
    "bootstrap confidence interval": ("explanation/intervals", "explanation/uncertainty"),
    "human noise ceiling": ("explanation/concepts", "reference/scoring"),
    "shape bias": ("tutorials/own-network", "reference/measures", "reference/api/measures"),
    "docker": ("guides/hosting",),
    "mturk": ("guides/hosting",),
    "map imagenet classes to 16 categories": ("explanation/concepts", "reference/models", "reference/registries"),
    "onnx model": ("reference/models",),
    "torchvision pretrained weights": ("reference/models",),
    "reaction times": ("reference/trials", "guides/studies", "guides/own-csv"),
    "export results huggingface": ("guides/share-results",),
    "sample size power analysis": ("guides/plan",),
    "adversarial training": ("guides/training", "guides/robust-training"),
    "out of distribution detection": ("explanation/abstention", "reference/models"),
    "missing answers": ("reference/measures", "reference/scoring", "reference/trials"),
    "pandas dataframe": ("reference/python", "guides/own-csv"),
    "CLIP zero-shot": ("reference/models",),
    "cite cosight": ("guides/methods-section",),
    "exclude participants attention checks": ("guides/studies",),
    "pytorch model cue conflict": ("tutorials/own-network",),
    "plot": ("guides/figure",),
    "significant difference": ("guides/compare-two-models",),
}


def test_the_search_finds_the_page(site):
    pytest.importorskip("playwright")
    from tests.browser.visits import browsing

    missed = {}
    with browsing() as browser:
        page = browser.new_page()
        for query, right in QUERIES.items():
            page.goto(f"{(site / 'search.html').as_uri()}?{urlencode({'q': query})}")
            page.wait_for_function("document.querySelector('#search-results .search-summary')?.textContent.length > 20")
            page.wait_for_timeout(300)  # results come one by one
            links = page.locator("#search-results ul.search > li > a").all()[:3]
            found = [re.sub(r"\.html.*", "", link.get_attribute("href")) for link in links]
            if not {*found} & {*right}:
                missed[query] = found
    assert missed == {}


def test_the_search_index_has_pages_and_functions(site):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for word in ("misclassification_agreement", "prolif", "visalign"):
        assert word in index
