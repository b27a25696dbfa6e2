"""A report in a browser: from a file and from a server, every page, sorting, filters, cells, slider and links."""

from __future__ import annotations

import re
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest
from PIL import Image as Pillow

from cosight import report
from cosight.demos import Size, demo
from cosight.reports.site.shards import script
from cosight.trials.manifest import manifest_frame, write_manifest
from cosight.trials.spaces import label_space
from cosight.trials.table import make_trials
from tests.benchmarks import test_laion_c as laion_c
from tests.browser.visits import Watch
from tests.reports.site_data import numbers, shard
from tests.reports.test_site import FEW, HOSTILE, hostile_trials, make_tasks
from tests.scoring.made_runs import VISALIGN, answers, random_answers, stimuli, write_run

CLASSES = ("cat", "dog", "owl")
READY = "html[data-ready]"
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
_NUMBERS = """() => [...document.querySelectorAll('main [data-row], main td.number')].flatMap((cell) => {
    if (cell.matches('td') && cell.querySelector('[data-row]')) return []; // its scores are listed by themselves
    const own = cell.closest('td, th, li'), line = cell.closest('tr');
    const at = line && own.matches('td, th') ? [...line.children].indexOf(own) : -1;
    const head = at < 0 ? '' : cell.closest('table').tHead?.rows[0].cells[at].textContent ?? '';
    const sd = cell.matches('small[data-row]');
    const text = [...cell.childNodes].filter((node) => !node.dataset?.row).map((node) => node.textContent).join('');
    return [{
        row: cell.dataset.row ?? null, value: cell.querySelector('[data-value]')?.dataset.value ?? null, text, sd, head,
        beside: line?.querySelector('[data-row]')?.dataset.row ?? null,
        first: (line?.querySelector('th a') ?? line?.querySelector('th bdi'))?.textContent ?? '',
    }];
})"""
_REVERSED = r"""() => {
    const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    const found = [];
    while (texts.nextNode()) {  // a name has an element of its own
        const text = texts.currentNode.nodeValue;
        const own = texts.currentNode.parentElement.closest('bdi, option, svg text, svg title, pre');
        if (own === null && /[\u202a-\u202e\u2066-\u2069]/.test(text)) found.push(text);
    }
    return found;
}"""
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


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.slow)])
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


def visalign_sources(folder):
    rows = [{**row, "experiment": "visalign"} for row in stimuli(dict.fromkeys(range(1, 9), 2), VISALIGN)]
    names = ("model:a@1#sp", "model:a@2#sp", "model:b@1#sp", "model:b@2#sp", "model:c")
    said = []
    for seed, name in enumerate(names):
        said += answers(rows, name, random_answers(seed, VISALIGN), VISALIGN)
    return [write_run(folder / "run", rows, said, VISALIGN)]


def laion_c_sources(folder):
    models = laion_c.trials_of(laion_c.MODELS[:2], conditions=(*laion_c.DISTORTIONS, "clean"))
    people = laion_c.trials_of(laion_c.PEOPLE, shown=laion_c.saw)
    return [make_trials(pl.concat([models, people]), source="made", space=label_space("laion-c-16"))]


def representation_sources(folder):
    return [make_tasks(folder / "set"), folder / "set"]


@pytest.fixture(scope="module", params=["error-alignment", "visalign", "laion-c", "representation"])
def any_report(request, tmp_path_factory):
    """A report of each kind of benchmark."""
    if request.param == "error-alignment":
        return request.param, request.getfixturevalue("pictured")[1]
    folder = tmp_path_factory.mktemp(request.param)
    sources = globals()[f"{request.param.replace('-', '_')}_sources"](folder)
    return request.param, report(*sources, out=folder / "site", **FEW).folder


def test_every_number_in_every_table_is_that_of_the_file(browser, any_report):
    """Values, intervals and standard deviations equal scores.parquet, counts a recount; no table has other numbers."""
    name, site = any_report
    stored = pl.read_parquet(site / "scores.parquet").to_dicts()
    facts = shard(site, "site")
    assert name in [part["name"] for part in facts["parts"]]
    counts = trial_counts(site)
    reader = Reader(browser, (site / "index.html").as_uri())
    observers = [one["name"] for one in facts["sets"][0]["observers"] if one["kind"] != "pool"]
    routes = [f"{kind}{quote(part['name'])}" for part in facts["parts"] for kind in ("?part=", "part/")]
    routes += ["observers", "people", "method", "disagree", "stimulus/0/0"]
    routes += [f"observer/{quote(observer, safe='')}" for observer in (observers[0], observers[-1])]
    checked, shown = set(), set()
    for route in routes:
        reader.open(route)
        for more in reader.page.locator(".table [role=status] button").all():
            more.click()
        for cell in reader.page.evaluate(_NUMBERS):
            where = (route, cell)
            if cell["row"] is not None:
                row = stored[int(cell["row"])]
                if row["value"] is None:
                    assert cell["text"].startswith("undefined: "), where
                else:
                    ends = [] if row["low"] is None or cell["sd"] else [row["low"], row["high"]]
                    assert prints(cell["text"], [row["value"], *ends]), where
                    assert cell["sd"] or float(cell["value"]) == row["value"], where
                shown.add(int(cell["row"]))
            elif cell["head"] == "n":
                assert int(cell["text"]) == stored[int(cell["beside"])]["n"], where
            elif cell["head"] in ("Trials", "Answered"):
                assert int(cell["text"]) == counts[cell["first"]][cell["head"]], where
            elif cell["head"] == "rows":
                files = {table["title"]: table for table in facts["tables"]}
                assert int(cell["text"]) == pl.read_parquet(site / files[cell["first"]]["parquet"]).height, where
            else:
                assert cell["text"] == "", where
            checked.add(re.split("[/?]", route)[0])
    table = next(part for part in facts["parts"] if part["name"] == name).get("table")
    if table is not None:  # all of the benchmark's table was seen
        assert {cell[0] for line in table["lines"] for cell in line["cells"] if cell} <= shown
    assert {"", "part", "observers", "observer", "method"} <= checked
    reader.leave()


def prints(text, values):
    """Return whether a text has these numbers, rounded to the digits that it has."""
    printed = re.findall(r"-?\d+(?:\.(\d+))?", text), re.findall(r"-?\d+(?:\.\d+)?", text)
    return len(values) == len(printed[1]) and all(
        abs(float(number) - value) <= 0.501 * 10.0 ** -len(digits)
        for digits, number, value in zip(*printed, values, strict=True)
    )


def trial_counts(site):
    """Trials and answers of each observer, counted with polars."""
    files = [table["parquet"] for table in shard(site, "site")["tables"] if table["name"].startswith("answers")]
    frame = pl.concat([pl.read_parquet(site / file) for file in files])
    counted = frame.group_by("observer").agg(Trials=pl.len(), Answered=pl.col("response").is_not_null().sum())
    return {row["observer"]: row for row in counted.to_dicts()}


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
    labels = shard(site, "site")["sets"][0]["labels"]
    counts = {(who, truth, answer): count for who, truth, answer, count in
              trials.frame.group_by("observer", "truth", "response").len().rows()}  # fmt: skip
    for cell in reader.page.locator(".matrix [data-cell]").all():
        codes = map(int, cell.get_attribute("data-cell").split(","))
        truth, answer = (labels[code] for code in codes)
        difference = counts.get(("m2", truth, answer), 0) - counts.get(("human:a", truth, answer), 0)
        assert int(cell.inner_text()) == difference
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
        assert reader.page.evaluate(_REVERSED) == []
        wide = reader.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert wide, route
    assert reader.open().page.inner_text("h1") == HOSTILE[0]
    reader.open("stimulus/0/0")
    assert reader.page.locator(".reason").first.text_content() == HOSTILE[0]
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
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
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
