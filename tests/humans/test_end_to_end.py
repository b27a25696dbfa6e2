"""One study over HTTP, from the link to every number made of it: all of them tell the same.

Participants see warm-up images, test images (some of them twice), distractors and gold images; one of them answers
clear distractors with a class. What each participant sent is noted here, and the numbers are computed from these notes.
"""

import json
import shutil
from collections import Counter

import httpx
import numpy as np
import polars as pl
import pytest
from statsmodels.stats.inter_rater import fleiss_kappa as statsmodels_fleiss

from cosight.humans.web.server import serve_in_background
from cosight.measures import intra_annotator_kappa
from cosight.stimuli.images import decode, digest
from cosight.stimuli.sets import read_set
from cosight.trials import label_spaces, read
from cosight.trials.manifest import write_manifest

ANSWERS = label_spaces["digits-11"].answers
COUNTS = "1=12,2=0,3=0,4=0,5=0,6=0,7=0,8=8,train=0,distractors=6"
PEOPLE, IMAGES, REPEATS = 6, 8, 3
DESIGN = f"""
name = "whole"
type = "timed"
set = "../digits"
labels = "digits-11"
seed = 3

[show]
group = "uncertain"
split = "test"

[design]
images = {IMAGES}
answers = {PEOPLE + 1}
distractors = 3
gold = 2
repeats = {REPEATS}

[[warmup]]
set = "../warm"
images = 2
"""
AGREEMENT = ("fleiss_kappa", "krippendorff_alpha", "intra_annotator_kappa", "cronbach_alpha")


def sent_by(site, number, roles, rng):
    """One participant from the link to the code: what they answered, as (role, stimulus, answer), in order."""
    made = site.post("/api/sessions", json={"platform": {}, "simulated": None}).raise_for_status()
    headers = {"Authorization": f"Bearer {made.json()['token']}"}
    site.post("/api/session/consent", json={"agreed": True}, headers=headers).raise_for_status()
    notes = []
    while trials := site.get("/api/trials", headers=headers).raise_for_status().json()["trials"]:
        for trial in trials:
            picture = site.get(trial["images"]["image"], headers=headers).raise_for_status().content
            stimulus = digest(decode(picture))
            role, truth = roles[stimulus]
            if role == "test":
                answer = truth if rng.random() < 0.6 else ANSWERS[rng.integers(len(ANSWERS))]
            else:
                answer = "1" if role == "distractor" and number == 0 else truth
            body = {"trial": trial["trial"], "response": answer, "rt": 1.0, "shown": None, "input": "key"}
            site.post("/api/answers", json=body, headers=headers).raise_for_status()
            notes.append((role, stimulus, answer))
    site.post("/api/finish", headers=headers).raise_for_status()
    return notes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study on uncertain digits, with everything that is not to be counted."""
    from typer.testing import CliRunner

    from cosight.cli.build import app
    from cosight.humans.study.texts import new_texts

    home = tmp_path_factory.mktemp("whole")
    made = CliRunner().invoke(app, ["digits", str(home / "digits"), "--counts", COUNTS])
    assert made.exit_code == 0, made.output
    whole = read_set(home / "digits")
    warm = whole.frame.filter(split="calibration", category=8).head(4)
    for file in warm["file"]:
        (home / "warm" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(whole.path(file), home / "warm" / file)
    write_manifest(home / "warm", warm, {})
    (home / "study").mkdir()
    (home / "study" / "study.toml").write_text(DESIGN)
    (home / "study" / "texts.toml").write_text(new_texts("timed", abstain=True))
    return home


def roles_of(folder):
    """The role and expected answer of every image that the study may show."""
    kept = (("warm", "warmup"), ("digits/distractors", "distractor"), ("digits", "test"))
    roles = {}
    for name, role in kept:
        for row in read_set(folder / name).frame.iter_rows(named=True):
            mine = "gold" if role == "test" and row["category"] == 1 else role
            roles.setdefault(row["stimulus"], (mine, row["truth"] or "abstain"))
    return roles


@pytest.fixture(scope="module")
def served(folder):
    """What participants sent, what the experimenter's page says, and the file it exports."""
    roles, rng = roles_of(folder), np.random.default_rng(0)
    with serve_in_background(folder / "study") as address, httpx.Client(base_url=address, timeout=30) as site:
        sent = [sent_by(site, number, roles, rng) for number in range(PEOPLE + 1)]
        token = (folder / "study" / "admin-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        state = site.get("/api/admin/state", headers=headers).raise_for_status().json()
        (folder / "page.parquet").write_bytes(site.get("/api/admin/export", headers=headers).raise_for_status().content)
    return sent, state


def numbers(rows, names=AGREEMENT):
    """Value and interval of each measure of people's."""
    keys = ("value", "low", "high", "n")
    return {row["measure"]: tuple(row[key] for key in keys) for row in rows if row["measure"] in names}


def test_every_way_to_the_numbers_gives_the_same_ones(folder, served, cosight):
    sent, state = served
    roles = Counter(role for role, _, _ in sent[1])
    assert roles == {"warmup": 2, "test": IMAGES + REPEATS, "distractor": 3, "gold": 2}
    [flagged] = [one["participant"] for one in state["flagged"]]
    assert flagged.endswith("/p0001")

    # the numbers by hand, from what was sent: first showings of test images by those who are kept
    kept = [[(stimulus, answer) for role, stimulus, answer in notes if role == "test"] for notes in sent[1:]]
    items = sorted({stimulus for notes in kept for stimulus, _ in notes})
    counts = np.zeros((len(items), len(ANSWERS)), int)
    pairs = []
    for number, notes in enumerate(kept):
        first = dict(reversed(notes))
        for stimulus, answer in first.items():
            counts[items.index(stimulus), ANSWERS.index(answer)] += 1
        again = [stimulus for stimulus, often in Counter(stimulus for stimulus, _ in notes).items() if often > 1]
        pairs += [(number, stimulus, answer) for stimulus, answer in notes if stimulus in again]
    assert len(pairs) == 2 * REPEATS * PEOPLE
    page = numbers(state["agreement"])
    assert page["fleiss_kappa"][0] == pytest.approx(statsmodels_fleiss(counts), abs=1e-12)
    assert page["fleiss_kappa"][3] == len(items)
    assert page["intra_annotator_kappa"][0] == pytest.approx(intra_annotator_kappa(*zip(*pairs, strict=True)).value)
    assert all(value is not None for value in page["fleiss_kappa"])

    # the page, the command, and the exported files, scored
    quality = json.loads(cosight("study", "quality", folder / "study", "--json").out)
    assert numbers(quality["agreement"]) == page
    assert cosight("study", "export", folder / "study", folder / "export.parquet", "--gold").code == 0
    assert read(folder / "export.parquet").frame.equals(read(folder / "page.parquet").frame)
    for file in ("export.parquet", "page.parquet"):
        scored = cosight("score", folder / file, "--measure", ",".join((*AGREEMENT, "accuracy")), "--json")
        rows = json.loads(scored.out)
        assert numbers(rows) == page
        left = (3 + 2 + REPEATS + 2) * PEOPLE
        assert f"{left} of {left + IMAGES * PEOPLE} trials are left out by their role" in scored.err
        (accuracy,) = [row for row in rows if (row["observer"], row["measure"]) == ("people", "accuracy")]
        truth = {stimulus: truth for stimulus, (_, truth) in roles_of(folder).items()}
        right = sum(counts[i, ANSWERS.index(truth[stimulus])] for i, stimulus in enumerate(items))
        assert accuracy["value"] == pytest.approx(right / counts.sum())
        assert accuracy["n"] == counts.sum()

    compared = [
        json.loads(cosight("compare", folder / file, "--measure", "acc,ec", "--json").out)
        for file in ("export.parquet", "page.parquet")
    ]
    assert compared[0] == compared[1]
    (mean,) = [
        r
        for r in compared[0]
        if (r["observer"], r["against"], r["measure"], r["statistic"])
        == ("people", "people", "error_consistency", "value")
    ]
    assert mean["n"] == IMAGES

    # gold labels: beside the export, in the set by export and by build
    def stored():
        frame = read_set(folder / "digits").frame
        return {row["stimulus"]: row["gold_counts"] for row in frame.iter_rows(named=True) if row["stimulus"] in items}

    expected = {stimulus: counts[i].tolist() for i, stimulus in enumerate(items)}
    assert stored() == expected
    table = pl.read_csv(folder / "export-gold.csv").filter(pl.col("stimulus").is_in(items))
    assert table["count"].to_list() == [n for s in table["stimulus"].unique(maintain_order=True) for n in expected[s]]
    built = cosight("build", "digits", folder / "digits", "--counts", COUNTS, "--humans", folder / "page.parquet")
    assert built.code == 0, built.err
    assert stored() == expected


def test_other_roles_are_scored_when_asked_for(folder, served, cosight):
    sent, _ = served
    cosight("study", "export", folder / "study", folder / "roles.parquet")
    shown = cosight("trials", "show", folder / "roles.parquet", "--role", "gold", "--json")
    (line,) = {row["accuracy"] for row in json.loads(shown.out)["observers"]}
    assert line == 1.0
    both = json.loads(
        cosight("score", folder / "roles.parquet", "--measure", "accuracy", "--role", "test,repeat", "--json").out
    )
    (row,) = [row for row in both if row["observer"] == "people"]
    assert row["n"] == (IMAGES + REPEATS) * PEOPLE
    wrong = cosight("score", folder / "roles.parquet", "--role", "distracter")
    assert (wrong.code, wrong.out) == (2, "")
    assert "no role is called 'distracter'; did you mean distractor?" in wrong.err
    assert len(sent) == PEOPLE + 1
