"""A report in a browser: from a file and from a server, every page, sorting, filters, cells, slider and links."""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image as Pillow

from cosight import report
from cosight.demos import Size, demo
from cosight.reports.site.shards import script
from cosight.trials.manifest import manifest_frame, write_manifest
from cosight.trials.table import make_trials
from tests.browser.visits import Watch
from tests.reports.site_data import numbers, shard
from tests.reports.test_site import FEW, HOSTILE, hostile_trials

CLASSES = ("cat", "dog", "owl")
READY = "html[data-ready]"
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
_COUNTS = """(all) => all.map((tr) => [
    tr.querySelector('a').textContent, tr.querySelector('[data-count=trials]').textContent])"""


class Reader:
    """Somebody who looks at a report; nothing may be complained about, and nobody else may be asked."""

    def __init__(self, browser, address, **settings):
        self.address = address
        self.context = browser.new_context(**settings)
        self.watch = Watch(address.rpartition("/")[0]).over(self.context)
        self.page = self.context.new_page()

    def open(self, route=""):
        self.page.goto("about:blank")  # a change of the hash alone would not load the page
        self.page.goto(f"{self.address}#/{route}")
        self.page.wait_for_selector(READY)
        return self

    @contextmanager
    def another_page(self):
        """Wait until another page is shown than before."""
        before = self.page.get_attribute("html", "data-ready")
        yield
        self.page.wait_for_selector(f"html:not([data-ready='{before}'])")

    def follow(self, selector):
        with self.another_page():
            self.page.click(selector)

    def choose(self, label, value):
        with self.another_page():
            self.page.get_by_label(label, exact=True).select_option(value)

    def leave(self):
        self.context.close()
        assert self.watch.unexpected() == []


@pytest.fixture(scope="module")
def pictured(tmp_path_factory):
    """A report with pictures at three levels, two people and two models with probabilities."""
    root = tmp_path_factory.mktemp("pictured")
    (root / "set" / "images").mkdir(parents=True)
    stimuli, trials = [], []
    rng = np.random.default_rng(0)
    for source in range(12):
        for level in (1, 2, 3):
            name, truth = f"{source}-{level}.png", CLASSES[source % 3]
            Pillow.fromarray(np.full((40, 60, 3), 20 * source, dtype=np.uint8)).save(root / "set" / "images" / name)
            about = {"experiment": "blurred", "condition": "blur", "level": level, "truth": truth, "image": name}
            stimuli.append({**about, "file": f"images/{name}", "parent": f"photo{source}"})
            for number, (who, kind) in enumerate(
                (("human:a", "human"), ("human:b", "human"), ("m1", "model"), ("m2", "model"))
            ):
                answer = CLASSES[(source + (rng.random() < 0.1 * level * (number + 1))) % 3]
                shares = None if kind == "human" else [0.8 if answer == label else 0.1 for label in CLASSES]
                trials.append({**about, "observer": who, "kind": kind, "response": answer, "probabilities": shares})
    write_manifest(root / "set", manifest_frame(stimuli), {})
    from cosight.trials.spaces import label_space

    made = make_trials(pl.DataFrame(trials), source="made", space=label_space(",".join(CLASSES)))
    return made, report(made, root / "set", out=root / "site", on="error-alignment", **FEW).folder


@contextmanager
def served(site):
    """The address of a report on a server of its own."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/index.html"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(params=["file", "server"])
def address(request, pictured):
    site = pictured[1]
    with served(site) as server:
        yield server if request.param == "server" else (site / "index.html").as_uri()


def test_every_page_can_be_reached(browser, address):
    reader = Reader(browser, address).open()
    seen, todo = set(), ["#/"]
    while todo:
        route = todo.pop()
        if route in seen:
            continue
        seen.add(route)
        reader.open(route[2:])
        assert reader.page.inner_text("h1") != "Not found", route
        for link in reader.page.eval_on_selector_all(
            "a[href^='#/']", "(all) => all.map((a) => a.getAttribute('href'))"
        ):
            kind = link.split("?")[0].split("/")[1]
            if sum(one.split("?")[0].split("/")[1] == kind for one in [*seen, *todo]) < 3:  # three pages of each kind
                todo.append(link)
    kinds = {route.split("?")[0].split("/")[1] for route in seen}
    assert kinds == {"", "part", "disagree", "observers", "observer", "stimulus", "people", "method"}
    reader.leave()


def test_scores_on_the_pages_are_those_of_the_file(browser, pictured):
    _, site = pictured
    stored = pl.read_parquet(site / "scores.parquet")["value"].to_list()
    reader = Reader(browser, (site / "index.html").as_uri())
    checked = 0
    for route in ("", "part/error-alignment", "part/score", "people", "observer/m1"):
        reader.open(route)
        cells = reader.page.eval_on_selector_all(
            "[data-row] > [data-value]",
            "(all) => all.map((e) => [e.parentElement.dataset.row, e.dataset.value, e.textContent])",
        )
        for row, value, text in cells:
            assert float(value) == stored[int(row)]
            assert float(text) == pytest.approx(stored[int(row)], abs=0.0005)
        checked += len(cells)
    assert checked > 50
    reader.leave()


def test_sorting_and_filtering_the_leaderboard(browser, pictured):
    reader = Reader(browser, (pictured[1] / "index.html").as_uri()).open()
    head = 'th:has-text("accuracy")'
    values = lambda: [  # noqa: E731
        float(text) for text in reader.page.eval_on_selector_all(
            "tbody tr", "(all) => all.map((tr) => tr.children[3].querySelector('b').textContent)")
    ]  # fmt: skip
    reader.page.click(f"{head} button")
    assert reader.page.get_attribute(head, "aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    reader.page.focus(f"{head} button")
    reader.page.keyboard.press("Enter")
    assert values() == sorted(values())
    reader.page.fill("input[type=search]", "m1")
    assert reader.page.eval_on_selector_all("tbody tr", "(all) => all.length") == 1
    reader.page.fill("input[type=search]", "")
    reader.page.get_by_label("Show", exact=True).select_option("people")
    assert reader.page.eval_on_selector_all("tbody tr.models", "(all) => all.length") == 0
    reader.leave()


def test_cells_filters_slider_and_links_of_the_disagreement_browser(browser, pictured):
    trials, site = pictured
    reader = Reader(browser, (site / "index.html").as_uri()).open("disagree?a=m2&b=human:a")
    wide = trials.frame.pivot("observer", index=["image", "level", "truth"], values="response")
    expected = {
        f"{int(a)}{int(b)}": wide.filter(
            ((pl.col("m2") == pl.col("truth")) == a) & ((pl.col("human:a") == pl.col("truth")) == b)
        ).height
        for a in (True, False)
        for b in (True, False)
    }
    shown = {name: int(reader.page.inner_text(f".two-by-two [data-cell='{name}']")) for name in expected}
    assert shown == expected
    reader.follow(".two-by-two [data-cell='01']")
    assert reader.page.locator("article").count() == min(expected["01"], 24) > 0
    reader.page.wait_for_selector("article img")
    link = reader.page.url
    reader.choose("Class", "dog")
    dogs = wide.filter((pl.col("truth") == "dog") & (pl.col("m2") != "dog") & (pl.col("human:a") == "dog")).height
    assert f"({dogs})" in reader.page.inner_text("h2 >> nth=0")
    other = Reader(browser, link.partition("#")[0]).open(link.partition("#/")[2])  # the link reproduces the view
    assert other.page.locator("article").count() == min(expected["01"], 24)
    assert other.page.get_attribute(".two-by-two [data-cell='01']", "aria-pressed") == "true"
    slider = other.page.locator("article input[type=range]").first
    before = other.page.inner_text("article a[href^='#/stimulus']")
    slider.focus()
    other.page.keyboard.press("End")
    other.page.keyboard.press("Home")
    other.page.wait_for_selector("article output:has-text('level 1')")
    other.page.keyboard.press("End")
    other.page.wait_for_selector("article output:has-text('level 3')")
    assert other.page.locator("article").first.locator(".bars").count() >= 2  # people beside the model
    assert before
    confusion = other.page.locator(".matrix button").first
    other.follow(f".matrix [data-cell='{confusion.get_attribute('data-cell')}']")
    assert other.page.locator("article").count() > 0
    other.leave()
    reader.leave()


def test_hostile_names_are_shown_as_texts(browser, tmp_path):
    site = report(hostile_trials(people=3, models=3, images=7), out=tmp_path / "site", title=HOSTILE[0], **FEW).folder
    reader = Reader(browser, (site / "index.html").as_uri())
    reader.page.on("dialog", lambda dialog: pytest.fail(f"a name was run: {dialog.message}"))
    facts = shard(site, "site")
    names = [one["name"] for one in facts["sets"][0]["observers"] if one["kind"] != "pool"]
    routes = ["", "disagree", "observers", "people", "method", *(f"part/{part['name']}" for part in facts["parts"])]
    for route in routes:
        reader.open(route)
        assert reader.page.evaluate("document.querySelectorAll('body script').length") == 0
        wide = reader.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert wide, route
    assert reader.open().page.inner_text("h1") == HOSTILE[0]
    reader.open("observers")
    for name in names:
        reader.open("observers")
        with reader.another_page():
            reader.page.locator("tbody a", has_text=name[-40:].strip()).first.click()
        assert reader.page.locator("h1").text_content() == name
    reader.leave()


@pytest.mark.parametrize("settings", [{"color_scheme": "dark"}, {"viewport": {"width": 390, "height": 844}}])
def test_dark_and_narrow_pages_are_readable(browser, pictured, settings):
    from tests.browser.looking import AUDIT

    reader = Reader(browser, (pictured[1] / "index.html").as_uri(), **settings)
    for route in ("", "disagree", "part/error-alignment", "method", "people", "stimulus/0/3"):
        reader.open(route)
        # the colours of the matrix are mixed with the background, which the audit cannot see
        reader.page.evaluate("document.querySelectorAll('.matrix, .two-by-two').forEach((one) => one.remove())")
        wrong = reader.page.evaluate(AUDIT)
        assert [text for text in wrong if text.startswith(("scrolls sideways", "contrast"))] == [], route
    themes = {reader.page.get_attribute("html", "data-theme")}
    for _ in range(2):  # auto, light, dark
        reader.page.click(".theme")
        themes.add(reader.page.get_attribute("html", "data-theme"))
    assert themes == {"light", "dark"}
    reader.leave()


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed; `npm ci` in web/ installs it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_accessibility_problem(browser, pictured, scheme):
    reader = Reader(browser, (pictured[1] / "index.html").as_uri(), color_scheme=scheme)
    routes = (
        "",
        "part/error-alignment",
        "part/score",
        "disagree",
        "observers",
        "observer/m1",
        "stimulus/0/3",
        "people",
    )
    for route in (*routes, "people", "method", "nowhere"):
        reader.open(route)
        reader.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = reader.page.evaluate("axe.run({resultTypes: ['violations'], preload: false})")
        serious = [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]
                   if one["impact"] in ("serious", "critical")]  # fmt: skip
        assert serious == [], route
    reader.leave()


def test_counts_of_the_observers_page_equal_a_recount(browser, pictured):
    trials, site = pictured
    reader = Reader(browser, (site / "index.html").as_uri()).open("observers")
    shown = dict(reader.page.eval_on_selector_all(
        "tbody tr", _COUNTS
    ))  # fmt: skip
    assert {name: int(count) for name, count in shown.items()} == dict(trials.frame.group_by("observer").len().rows())
    reader.leave()


def test_the_report_of_the_demo_opens_from_a_file_and_from_a_server(browser, tmp_path):
    page = demo("people", out=tmp_path / "demo", size=Size(resamples=10), progress=False).page
    site = page.parent
    with served(site) as server:
        for address in (page.as_uri(), server):
            reader = Reader(browser, address).open()
            assert "model:resnet50-trained-on-SIN is closest to people" in reader.page.inner_text(".verdict >> nth=0")
            assert reader.page.locator("figure svg").count() == 1
            reader.open("disagree?a=model:alexnet&b=people&cell=10")
            assert reader.page.locator(".no-picture").count() > 0
            reader.open("stimulus/0/0")
            truth = numbers(shard(site, "0/stimuli")["truth"], "truth")[0]
            assert shard(site, "site")["sets"][0]["labels"][truth] in reader.page.inner_text("main")
            reader.leave()


def test_a_page_reloads_itself_while_a_run_is_in_progress(browser, pictured, tmp_path):
    site = tmp_path / "site"
    shutil.copytree(pictured[1], site)
    facts = shard(site, "site")
    (site / "data" / "site.js").write_text(script("site", {**facts, "watched": True}), encoding="ascii")
    reader = Reader(browser, (site / "index.html").as_uri()).open()
    assert "in progress" in reader.page.inner_text("header")
    (site / "data" / "site.js").write_text(script("site", {**facts, "stamp": "later"}), encoding="ascii")
    with reader.page.expect_navigation():
        (site / "data" / "stamp.js").write_text(script("stamp", "later"), encoding="ascii")
    reader.page.wait_for_selector(READY)
    assert "in progress" not in reader.page.inner_text("header")
    reader.leave()
