"""Simulated people and models take part in studies over real HTTP: they recognise pixels and are called simulated."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from threading import Thread
from time import monotonic, sleep

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from cosight.benchmarks.digits.digits_builder import build_digits
from cosight.benchmarks.visalign.categories import Counts
from cosight.cli.study import results, simulation
from cosight.errors import InvalidInput
from cosight.humans.database.store import Store
from cosight.humans.database.study_trials import study_trials
from cosight.humans.results.export import gold_table
from cosight.humans.results.quality import assess
from cosight.humans.results.records import first_test_records, study_records
from cosight.humans.simulated import browser
from cosight.humans.simulated.respondents import (
    SimulatedObserver,
    panel_observer,
    panel_probabilities,
    read_pictures,
    similarity_observer,
)
from cosight.humans.simulated.simulate import SimulationResult, simulate
from cosight.humans.study.design import read_study
from cosight.humans.study.pool import load_pool
from cosight.humans.study.texts import new_texts
from cosight.humans.study.trial_types import Respondent
from cosight.humans.web.server import make_application, serve_in_background, static_files
from cosight.measures import cronbach_alpha, fleiss_kappa, krippendorff_alpha
from cosight.stimuli.images import read_image
from cosight.stimuli.sets import read_set
from cosight.trials import label_spaces, make_trials, write
from cosight.trials.manifest import write_manifest

from .conftest import ADMIN, CLASSES, STATIC, make_study

DIGITS = label_spaces["digits-11"]
SURVEY = """name = 'survey'\ntype = 'classify'\nset = '../digits'\nlabels = 'digits-11'
[show]\nsplit = 'test'\ngroup = 'uncertain'\n[design]\n{design}\n"""


def run(function, *arguments):
    app = typer.Typer()
    app.command()(function)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@contextmanager
def served(folder, static=STATIC):
    """The study in `folder` on a free port, by a thread of this process."""
    from uvicorn import Config, Server

    study = read_study(folder)
    app = make_application(study, load_pool(study), Store.open(study), admin_token=ADMIN, static=static)
    server = Server(Config(app, port=0, log_level="error", lifespan="on"))
    thread = Thread(target=server.run)
    thread.start()
    until = monotonic() + 20
    while not server.started and monotonic() < until:
        sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(20)


def study_id(folder):
    (source,) = trials_of(folder).sources
    return source["id"]


def trials_of(folder):
    study = read_study(folder)
    store = Store.open(study)
    found = study_trials(study, load_pool(study), store)
    store.close()
    return found


def build(folder, uncertain):
    """Digits that nobody is sure about, some clean ones, and distractors."""
    counts = Counts({**dict.fromkeys(range(1, 8), 0), 1: 6, 8: uncertain}, train=0, distractors=16)
    return build_digits(folder / "digits", counts=counts, seed=3).generated.stimuli.root


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return build(tmp_path_factory.mktemp("set"), 8)


def write_survey(folder, design):
    """A study in `folder`/study of the Uncertain digits in `folder`/digits."""
    home = folder / "study"
    home.mkdir()
    (home / "study.toml").write_text(SURVEY.format(design=design))
    (home / "texts.toml").write_text(new_texts("classify", abstain=True))
    return home


@pytest.fixture
def survey(digits, tmp_path):
    """`survey("images = 8 ...")`: a study of eight Uncertain digits."""
    shutil.copytree(digits, tmp_path / "digits")
    return lambda design: write_survey(tmp_path, design)


# --- the panel's shares


# 134 answers as in Lee et al. 2023 (20 in `make test`); at least 93 % of the shares within 2 sqrt(p (1 - p) / (n - 1))
# of the panel's own.
# Of shares drawn from the panel's multinomial 97 % are; fewer than 93 % of 88 in 3 of 100 draws, of 330 in 1 of 1000.


@pytest.mark.parametrize("answers", [20, *(pytest.param(count, marks=pytest.mark.slow) for count in (40, 134))])
@pytest.mark.slow
def test_many_answers_an_image_give_the_panels_shares(survey, crowds, answers):
    folder = survey(f"images = 8\nanswers = {answers}\nforms = true\n[participants]\nconsent = false")
    check_shares(folder, crowds, images=8, answers=answers)


@pytest.mark.slow
def test_134_answers_an_image_give_the_panels_shares_of_30_images(tmp_path, crowds):
    build(tmp_path, 30)
    folder = write_survey(tmp_path, "images = 30\nanswers = 134\nforms = true")
    check_shares(folder, crowds, images=30, answers=134)


def check_shares(folder, crowds, *, images, answers):
    pictures = read_pictures(read_study(folder))
    with crowds.serve_study(folder) as server:
        result = simulate(
            pictures, f"http://127.0.0.1:{server.port}/", panel_observer(pictures), participants=answers + 16, seed=1
        )
    assert result == SimulationResult(
        participants=answers, answers=answers * images, full=True
    )  # the fewest that it takes
    trials = trials_of(folder)
    assert set(Counter(trials.frame["stimulus"]).values()) == {answers}  # no image has one more than another
    assert set(trials.frame["kind"]) == {"simulated"}
    assert trials.frame["observer"].str.contains(r"^simulated:[0-9a-f]+/p\d{4}$").all()

    gold, chances = gold_table(trials), panel_probabilities(pictures)
    p = np.concatenate([chances.expected(name) for name in gold["stimulus"].unique(maintain_order=True)])
    assert gold["answer"].to_list() == [*DIGITS.answers] * images
    inside = np.abs(gold["share"].to_numpy() - p) <= 2 * np.sqrt(p * (1 - p) / (gold["n"].to_numpy() - 1))
    assert inside.mean() >= 0.93
    assert set(gold["group"]) == {"simulated people"}
    check_agreement(trials, images, answers)
    check_gold_is_called_simulated(folder, answers)


def check_agreement(trials, images, answers):
    """Kappa and the alphas of a study are those of `cosight.measures` on the same table."""
    table = first_test_records(study_records(trials)).sort("participant", "item")
    said = table["answer"].to_numpy().reshape(answers, images)
    names = sorted(set(table["answer"]))
    found = {row.measure: row for row in assess(trials, resamples=20).agreement}
    counts = [[(column == name).sum() for name in names] for column in said.T]
    assert found["fleiss_kappa"].value == pytest.approx(fleiss_kappa(counts).value, abs=1e-12)
    codes = np.array([[names.index(one) for one in row] for row in said], float)
    assert found["krippendorff_alpha"].value == pytest.approx(krippendorff_alpha(codes).value, abs=1e-12)
    truth = table["truth"].to_numpy().reshape(answers, images)[0]
    gold = [t if (column == t).mean() > 0.5 else "abstain" for column, t in zip(said.T, truth, strict=True)]
    assert found["cronbach_alpha"].value == pytest.approx(cronbach_alpha(said == gold).value, abs=1e-12)


def check_gold_is_called_simulated(folder, answers):
    done = run(results.export, folder, folder / "out.parquet", "--gold")
    assert done.exit_code == 0, done.output
    assert "are simulated people's now" in done.output
    told = read_set(folder.parent / "digits").frame.filter(
        pl.col("stimulus").is_in(trials_of(folder).frame["stimulus"].to_list())
    )
    assert {json.loads(text)["gold"] for text in told["parameters"]} == {"simulated"}
    assert {sum(counts) for counts in told["gold_counts"]} == {answers}


def test_expected_shares_are_those_of_the_panel_itself(survey):
    """Averaged over eyes by quadrature, and drawn by `Panel.answers` with 40,000 persons."""
    chances = panel_probabilities(read_pictures(read_study(survey("images = 1\nanswers = 1"))))
    many = replace(chances.panel, people=40_000)
    for stimulus, row in list(chances.pictures.rows.items())[:4]:
        drawn = np.bincount(many.answers(stimulus, row["kind"], row["level"], row["truth"]), minlength=11) / many.people
        p = chances.expected(stimulus)
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert (np.abs(drawn - p) <= 4.5 * np.sqrt(p * (1 - p) / many.people)).all()


def test_clear_images_are_seen_right_but_for_lapses(survey):
    chances = panel_probabilities(
        read_pictures(read_study(survey("images = 1\nanswers = 1\ndistractors = 1\ngold = 1")))
    )
    row = next(row for row in chances.pictures.rows.values() if row["truth"] == "abstain")
    found = chances.of(row["stimulus"], -9.0)  # whose eyes do not matter here
    assert found[-1] == pytest.approx(0.98 + 0.02 / 11)
    assert found[:-1] == pytest.approx(np.full(10, 0.02 / 11))


# --- planted bad workers


def clicker(rng):
    return Respondent(probabilities=lambda item: [1 / 11] * 11)


def pressing(answer):
    return lambda rng: Respondent(probabilities=lambda item: [float(a == answer) for a in DIGITS.answers])


def distracted(panel, clear):
    """Does well, but names a digit where clearly there is none."""

    def person(rng):
        good = panel.person(rng)
        three = [float(a == "3") for a in DIGITS.answers]
        return Respondent(probabilities=lambda item: three if item.item in clear else good.probabilities(item))

    return person


@pytest.mark.parametrize("good", [6, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_bad_workers_are_found_and_good_ones_kept(survey, good):
    """Who comes in which order is known, and numbers are given in that order."""
    folder = survey(f"images = 8\nanswers = {6 + good}\ndistractors = 10\ngold = 6")
    pictures = read_pictures(read_study(folder))
    items = load_pool(pictures.study).by_role("distractor")
    panel, clear = panel_observer(pictures), {item.item for item in items if item.clear}
    bad = [clicker, clicker, pressing("7"), pressing("abstain"), distracted(panel, clear), distracted(panel, clear)]
    people = iter([*bad, *[panel.person] * good])
    with served(folder) as url:
        crowd = SimulatedObserver("panel", lambda rng: next(people)(rng))
        assert simulate(pictures, url, crowd, participants=6 + good, seed=2).participants == 6 + good
    trials = trials_of(folder)
    found = assess(trials, resamples=20)
    out = {one.participant: one.reasons for one in found.flagged}
    found_bad = {name for name in out if int(name.rpartition("/p")[2]) <= len(bad)}
    assert len(found_bad) == len(bad)
    slipped = study_records(trials).filter(pl.col("clear") & (pl.col("response") != pl.col("expected")))
    assert set(out) - found_bad <= set(slipped["participant"])
    assert found.kept.observers.height >= good - 2


# --- all types, over HTTP


@pytest.mark.parametrize("kind", ["classify", "timed", "2afc", "cluster", "curate"])
def test_the_panel_sits_every_type(kind, tmp_path):
    folder = make_study(tmp_path, kind)
    pictures = read_pictures(read_study(folder))
    with served(folder) as url:
        result = simulate(pictures, url, panel_observer(pictures), participants=99)
    trials = trials_of(folder)
    assert result.full
    assert result.participants == trials.frame["observer"].n_unique()
    records = study_records(trials)
    assert records["finished"].all()
    assert set(records["group"]) == {"simulated people"}
    tests = Counter(first_test_records(records)["item"]).values()
    assert set(tests) == {pictures.study.answers}
    checks = records.filter(role="check")
    assert checks["response"].to_list() == checks["expected"].to_list()  # what is the same is nearest, always


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answers(tmp_path):
    tables = []
    for place, seed in enumerate((7, 7, 8)):
        folder = make_study(tmp_path / str(place), "classify", answers=3)
        pictures = read_pictures(read_study(folder))
        with served(folder) as url:
            simulate(pictures, url, panel_observer(pictures), participants=4, seed=seed)
        number = pl.col("observer").str.extract(r"/(p\d+)$")  # before it the study's random id
        tables.append(trials_of(folder).frame.select(number, "stimulus", "response", "rt", "trial"))
    assert tables[0].equals(tables[1])
    assert not tables[0]["rt"].equals(tables[2]["rt"])


def test_answers_too_late_for_a_timed_study_are_missed(tmp_path):
    folder = make_study(tmp_path, "timed", answers=4, more="[timing]\nresponse = 1.0\nprompt = 0.5\n")
    pictures = read_pictures(read_study(folder))
    with served(folder) as url:
        simulate(pictures, url, panel_observer(pictures), participants=99)
    frame = trials_of(folder).frame
    assert 0.3 < frame["response"].is_null().mean() < 0.7  # the median is a second
    assert frame["rt"].max() <= 1.0


# --- models


def test_a_model_sits_a_study_by_the_command(tmp_path):
    folder = make_study(tmp_path, "classify", answers=1)
    pictures = read_pictures(read_study(folder))
    said = {stimulus: CLASSES[place % 4] for place, stimulus in enumerate(pictures.files)}
    rows = [{"observer": "vlm:sage", "kind": "vlm", "stimulus": s, "response": a} for s, a in said.items()]
    write(make_trials(pl.DataFrame(rows), space=pictures.study.space), tmp_path / "sage.parquet")
    with served(folder) as url:
        line = f"trials:{tmp_path / 'sage.parquet'}"
        done = run(simulation.simulate, folder, "--participants", 9, "--observer", line, "--url", url)
    assert done.exit_code == 0, done.output
    assert "3 simulated participants (vlm:sage) answered 21 trials; the study takes no more now" in done.output
    frame = trials_of(folder).frame
    assert set(frame["observer"]) == {f"simulated:{study_id(folder)}/vlm:sage-p000{number}" for number in (1, 2, 3)}
    assert frame["response"].to_list() == [said[stimulus] for stimulus in frame["stimulus"]]


def test_a_model_compares_by_its_features(tmp_path, monkeypatch):
    folder = make_study(tmp_path, "2afc", answers=1)
    monkeypatch.setattr(import_module("cosight.models.loading"), "load_model", lambda name, **_: Brightness())
    with served(folder) as url:
        done = run(simulation.simulate, folder, "--participants", 1, "--observer", "own:brightness", "--url", url)
    assert done.exit_code == 0, done.output
    light = {name: read_image(file).mean() for name, file in read_pictures(read_study(folder)).files.items()}
    frame = trials_of(folder).frame
    assert set(frame["observer"]) == {f"simulated:{study_id(folder)}/own:brightness-p0001"}
    for response, text in frame.select("response", "extra").iter_rows():
        told = json.loads(text)
        assert response == min(told["options"], key=lambda option: abs(light[option] - light[told["query"]]))


class Brightness:
    """A model with one feature."""

    name = "own:brightness"

    def prepare(self, pixels):
        return np.float32(pixels.mean())

    def answer(self, batch):
        from cosight.models.model import ModelOutputs

        return ModelOutputs(np.zeros((1, 2), np.float32), np.array(batch).reshape(1, 1))


def test_models_do_not_curate(tmp_path):
    done = run(simulation.simulate, make_study(tmp_path, "curate"), "--participants", 1, "--observer", "timm:vit")
    assert isinstance(done.exception, InvalidInput)
    assert "models cannot take part in curate studies" in str(done.exception)


# --- what can go wrong, in one line


def test_no_gold_and_no_truth(tmp_path):
    folder = make_study(tmp_path, "classify", distractors=0)
    stimuli = read_set(tmp_path / "set")
    write_manifest(tmp_path / "set", stimuli.frame.with_columns(truth=pl.lit(None, pl.String)), stimuli.facts)
    with pytest.raises(InvalidInput, match="needs the gold label or the truth of every image"):
        panel_observer(read_pictures(read_study(folder)))


def test_answers_are_drawn_from_gold_where_there_is_some(tmp_path):
    folder = make_study(tmp_path, "classify", distractors=0)
    stimuli = read_set(tmp_path / "set")
    shares = [0.5, 0.25, 0.0, 0.0, 0.25]
    gold = pl.Series([shares] * len(stimuli))
    write_manifest(tmp_path / "set", stimuli.frame.with_columns(gold=gold), stimuli.facts)
    chances = panel_probabilities(read_pictures(read_study(folder)))
    assert chances.of(next(iter(chances.pictures.rows)), 0.0).tolist() == shares


def test_nobody_serves(tmp_path):
    pictures = read_pictures(read_study(make_study(tmp_path, "classify")))
    with pytest.raises(InvalidInput, match=r"does not answer .*start it with `cosight study serve`"):
        simulate(pictures, "http://127.0.0.1:9/", panel_observer(pictures), participants=2)


def test_another_study_is_served(tmp_path, digits):
    ours = make_study(tmp_path / "ours", "classify")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "study.toml").write_text(
        f"name = 'o'\ntype = 'classify'\nset = '{digits}'\nlabels = 'digits-11'\n[design]\nimages = 2\nanswers = 1\n"
    )
    (theirs / "texts.toml").write_text(new_texts("classify", abstain=True))
    pictures = read_pictures(read_study(ours))
    with served(theirs) as url, pytest.raises(InvalidInput, match="a picture that is not in the sets of small"):
        simulate(pictures, url, panel_observer(pictures), participants=2)


def test_a_name_that_the_server_refuses_is_told_in_its_words(tmp_path):
    folder = make_study(tmp_path, "2afc")
    pictures = read_pictures(read_study(folder))
    with served(folder) as url, pytest.raises(InvalidInput, match="/api/sessions was refused: a simulated participant"):
        simulate(pictures, url, similarity_observer("<script>", {}), participants=1)


def test_an_address_and_a_database_do_not_go_together(tmp_path):
    done = run(simulation.simulate, tmp_path, "--participants", 1, "--url", "http://127.0.0.1:9", "--db", "sqlite://")
    assert "has its own database" in str(done.exception)


# --- a server of its own, and the real page


@pytest.fixture
def page():
    try:
        return static_files()
    except InvalidInput as error:
        pytest.skip(str(error))


def test_the_command_starts_and_stops_a_server(tmp_path, page):
    folder = make_study(tmp_path, "classify", answers=1)
    done = run(simulation.simulate, folder, "--participants", 1, "--seed", 4)
    assert done.exit_code == 0, done.output
    assert "1 simulated participants (panel) answered 7 trials\nnext: cosight study quality" in done.output
    assert len(trials_of(folder)) == 7
    assert not list(folder.glob("*-wal"))  # the database was closed


def test_what_is_wrong_with_a_hosted_study_is_told(tmp_path, page):
    with pytest.raises(InvalidInput, match=r"study\.toml does not exist"), serve_in_background(tmp_path):
        pass


def test_a_hosted_study_ends_with_its_parent(tmp_path, page):
    """Even with one that is killed."""
    folder = make_study(tmp_path, "classify")
    code = (
        "import sys; from pathlib import Path; from cosight.humans.web.server import serve_in_background\n"
        "with serve_in_background(Path(sys.argv[1])) as address: print(address, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        port = int(parent.stdout.readline().rstrip("/\n").rpartition(":")[2])
        assert answers(port)
        parent.kill()
    until = monotonic() + 20
    while answers(port) and monotonic() < until:
        sleep(0.05)
    assert not answers(port)


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def chromium(page):
    pytest.importorskip("playwright")
    if not any(map(shutil.which, browser.BROWSERS)):
        pytest.skip(f"no browser here: {', '.join(browser.BROWSERS)}")
    return page


@pytest.mark.parametrize(("kind", "trials"), [("classify", 7), ("cluster", 2)])
@pytest.mark.slow
def test_a_participant_goes_through_the_real_page(kind, trials, tmp_path, chromium):
    folder = make_study(tmp_path, kind, answers=1, people="demographics = ['age']")
    pictures = read_pictures(read_study(folder))
    with served(folder, chromium) as url:
        result = browser.simulate_in_browser(pictures, url, panel_observer(pictures), participants=1, seed=1)
    assert result == SimulationResult(participants=1, answers=trials, full=False)
    frame, records = trials_of(folder).frame, study_records(trials_of(folder))
    assert records["finished"].all()
    assert set(frame["observer"]) == {f"simulated:{study_id(folder)}/p0001"}
    assert {json.loads(text)["input"] for text in frame["extra"]} == {"mouse"}
    seen = records.filter(pl.col("role") == ("test" if kind == "classify" else "check"))
    assert (seen["response"] == seen["truth"]).mean() > 0.7  # it answers what it sees


@pytest.mark.slow
def test_a_browser_is_told_when_the_study_is_full(tmp_path, chromium):
    folder = make_study(tmp_path, "curate", images=12, answers=1)
    pictures = read_pictures(read_study(folder))
    with served(folder, chromium) as url:
        assert simulate(pictures, url, panel_observer(pictures), participants=1) == SimulationResult(1, 12, full=False)
        assert browser.simulate_in_browser(pictures, url, panel_observer(pictures), participants=1) == SimulationResult(
            0, 0, full=True
        )


def test_what_a_browser_needs_is_told(tmp_path, monkeypatch):
    pictures = read_pictures(read_study(make_study(tmp_path, "classify")))
    run_browser = partial(
        browser.simulate_in_browser, pictures, "http://127.0.0.1:9/", panel_observer(pictures), participants=1
    )
    monkeypatch.setattr(shutil, "which", lambda name: None)
    pytest.importorskip("playwright")
    with pytest.raises(InvalidInput, match=r"needs a browser on the path \(chromium, "):
        run_browser()
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(InvalidInput, match=r"pip install 'cosight\[browser\]'"):
        run_browser()
