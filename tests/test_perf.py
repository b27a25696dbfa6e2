"""The benchmarks still run, and what they time gives the same numbers as the peers. No time is asserted here."""

import json
import math
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from cosight.measures.answers import Answers
from cosight.measures.consistency import error_consistency, error_consistency_matrix
from cosight.measures.misclassification import misclassification_agreement_matrix
from cosight.measures.uncertainty import pair_estimate
from cosight.scoring.plan import plan
from cosight.trials.formats import read, write
from cosight.trials.join import align
from tests.scoring.planned import deliver, simulate

_PARTS = (
    *("abstaining", "aligning", "corruptions", "distortions", "evaluating", "exposing", "interval_coverage"),
    *("laion_c", "lines", "making", "reading", "run", "scoring", "serving"),
    *("representing", "reporting"),
)


@pytest.fixture(scope="module")
def perf():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1])  # scripts beside the package, not part of it
        yield SimpleNamespace(**{name: import_module(f"perf.{name}") for name in _PARTS})


@pytest.fixture(scope="module")
def small(perf):
    return perf.lines.Size(5, 400, 3, 200, 20, 100, 1)


def test_every_line_is_measured(perf, small):
    found = list(perf.lines.lines(small))
    assert len(found) == 7
    assert all(line.ours > 0 and line.theirs > 0 and math.isfinite(line.ratio) for line in found)
    assert sum(line.limit is not None for line in found) == 5
    assert all(line.name in perf.run.row(line) for line in found)


@pytest.mark.parametrize(
    ("ours", "theirs", "limit", "faster", "ok"),
    [(2, 1, 3, False, True), (4, 1, 3, False, False), (1, 100, 100, True, True), (1, 99, 100, True, False)],
)
def test_limits_are_most_for_a_share_and_least_for_a_gain(perf, ours, theirs, limit, faster, ok):
    line = perf.lines.Line("x", "y", ours, theirs, limit, faster)
    assert line.ok is ok
    assert perf.run.row(line).startswith("yes" if ok else "NO ")
    assert perf.lines.Line("x", "y", ours, theirs, None, faster).ok


def test_misclassification_agreement_is_the_kappa_that_is_timed(perf):
    table = perf.lines.study(6, 2000)
    pairs = perf.lines.pairs_of(6)
    kappa = perf.lines.kappa_loop(table, pairs, jointly_wrong=True)
    assert misclassification_agreement_matrix(table)[tuple(pairs.T)] == pytest.approx(kappa, abs=1e-12)


def test_the_study_is_as_hard_as_said_and_confuses_alike(perf):
    table = perf.lines.study(100, 1000)
    accuracy = table.correct.mean(axis=1)
    assert np.percentile(accuracy, [16, 84]) == pytest.approx([0.45, 0.74], abs=0.06)
    assert np.median(misclassification_agreement_matrix(table)[tuple(perf.lines.pairs_of(100).T)]) > 0.05


def test_all_pairs_and_one_pair_agree_on_the_timed_table(perf):
    correct = perf.lines.study(3, 500).correct
    assert error_consistency_matrix(correct)[0, 2] == pytest.approx(error_consistency(correct[0], correct[2]).value)


def test_both_ways_of_resampling_spread_alike(perf):
    a, b = perf.lines.study(2, 400).correct
    loop = perf.lines.resampling_loop(a, b, 2000, np.random.default_rng(0))
    ours = pair_estimate("ec", Answers.of_correctness(a, b), resamples=2000, rng=np.random.default_rng(1))
    low, high = np.quantile(loop, [0.025, 0.975])
    assert ours.value == pytest.approx(loop.mean(), abs=0.01)
    assert ours.high - ours.low == pytest.approx(high - low, rel=0.1)


@pytest.fixture(scope="module")
def files(perf, tmp_path_factory):
    return perf.reading.as_files(perf.reading.Size(3, 200, 1), tmp_path_factory.mktemp("perf"))


def test_both_files_hold_the_same_trials_as_the_peers_read(perf, files):
    parquet, csv = (read(files[kind]).frame for kind in ("Parquet", "model-vs-human CSV"))
    assert parquet.equals(csv)
    for path in files.values():
        for peer in perf.reading.peers(path).values():
            assert len(peer()) == len(csv) == 600
    bare = perf.reading.peers(files["model-vs-human CSV"])["polars"]()
    right = (pl.col("truth") == pl.col("response")).sum()
    assert csv.select(right).item() == (bare["category"] == bare["object_response"]).sum()


def test_memory_is_that_of_a_process_of_its_own(perf, files):
    used, table = perf.reading.peak(files["Parquet"])
    assert 0 < used < 500
    assert table == pytest.approx(read(files["Parquet"]).frame.estimated_size() / 1e6)


@pytest.fixture
def command(perf, monkeypatch):
    """`perf/run.py` with two lines for each part: one that keeps its limit, and one that misses it for `measures`."""

    def two_lines(part, read_printed):
        def lines(size):
            yield perf.lines.Line(f"{part}, fast", "peer", 1.0, 1.0, 3, faster=False)
            read_printed()
            yield perf.lines.Line(f"{part}, slow", "peer", 4.0 if part == "measures" else 2.0, 1.0, 3, faster=False)

        return lines

    def run(*arguments, read_printed=lambda: None):
        for part, module in perf.run.PARTS.items():
            monkeypatch.setattr(getattr(perf, module), "lines", two_lines(part, read_printed))
        monkeypatch.setattr("os.environ", {})
        monkeypatch.setattr("sys.path", [])
        return perf.run.main([*arguments])

    return run


def test_the_command_prints_json_and_fails_on_a_missed_limit(perf, command, capsys):
    assert command("--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert [line["name"] for line in found] == [f"{part}, {how}" for part in perf.run.PARTS for how in ("fast", "slow")]
    missed = found[1]
    assert (missed["name"], missed["ratio"], missed["limit"], missed["ok"]) == ("measures, slow", 4, 3, False)
    assert [line["ok"] for line in found].count(False) == 1


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_each_line_is_printed_when_it_is_measured(command, capsys, form):
    seen = []
    assert command("scoring", *form, read_printed=lambda: seen.append(capsys.readouterr().out)) == 0
    assert "scoring, fast" in seen[0]  # before the second line is measured
    assert "scoring, slow" in capsys.readouterr().out


def test_only_the_named_parts_are_measured(command, capsys):
    assert command("scoring", "reading") == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split()[-3].rstrip(",") for row in rows[1:]] == ["reading", "reading", "scoring", "scoring"]
    assert command("measures") == 1  # the limit that is missed


def test_an_unknown_part_is_one_line_with_the_known_ones(perf, command, capsys):
    assert command("scoring", "scorign") == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"perf: unknown part scorign; choose from {', '.join(perf.run.PARTS)}\n"


@pytest.mark.slow
def test_every_stimulus_line_is_measured(perf):
    pytest.importorskip("imagecorruptions")
    corrupted = list(perf.corruptions.lines(perf.corruptions.Size((48,), 1)))
    assert len(corrupted) == 19 + 1
    assert [line.limit for line in corrupted] == [1] * 19 + [5]
    mean = np.exp(np.mean([np.log(line.ratio) for line in corrupted[:-1]]))
    assert corrupted[-1].ratio == pytest.approx(mean)
    distorted = list(perf.distortions.lines(perf.distortions.Size(200, 1)))
    assert sorted(line.limit for line in distorted) == [5, 5, 5, 5, 5, 12]


@pytest.mark.slow
def test_the_line_about_processes_is_measured(perf):
    [made] = perf.making.lines(perf.making.Size(2, 1))
    assert made.ours > 0
    assert made.theirs > 0


def test_every_abstention_line_is_measured(perf, monkeypatch):
    from cosight.torchvision_ops import import_torchvision

    import_torchvision()
    pytest.importorskip("faiss")
    pytest.importorskip("pytorch_ood")

    def in_this_process(what, whose, path):
        work = perf.abstaining.functions(what)[whose](perf.abstaining.Data.load(path))
        return float(work() is not None)

    monkeypatch.setattr(perf.abstaining, "peak", in_this_process)  # six that import torch; one of them has its test
    found = list(perf.abstaining.lines(perf.abstaining.Size(300, 20, 30, 1)))
    assert len(found) == 6
    assert all(line.ours > 0 and line.theirs > 0 for line in found if line.unit == "s")
    assert {line.unit for line in found} == {"s", "MB"}


def test_every_line_about_representations_is_measured(perf, monkeypatch, one_torch_thread):
    monkeypatch.setattr(perf.representing, "peak", lambda targets: 300.0 + targets)  # a process that imports torch
    found = list(perf.representing.lines(perf.representing.Size(2, 1, 1, 4, 2, 3)))
    assert [line.limit for line in found] == [1.15, 1.15, 1.1]
    assert [line.unit for line in found] == ["s", "s", "MB"]
    assert all(line.ours > 0 and line.theirs > 0 for line in found)


@pytest.mark.slow
def test_the_memory_of_inversions_is_that_of_a_process(perf):
    assert 100 < perf.representing.peak(2) < 2000


def test_every_scoring_line_is_measured(perf, monkeypatch):
    monkeypatch.setattr(perf.scoring, "peak_of_compare", lambda path, resamples: (1.0, 300.0))  # it has its own test
    found = list(perf.scoring.lines(perf.scoring.Size(2, 2, 20, 2, 4, 2, 60, 2, 4, 6, 3)))
    assert [line.limit for line in found] == [1, 30, 1, 2.5, 1.5, 2]
    assert [line.unit for line in found] == ["s", "s", "MB", "s", "s", "s"]
    assert all(line.ours > 0 and line.theirs > 0 for line in found)


def test_six_measures_of_all_pairs_are_those_of_the_loop(perf):
    size = perf.aligning.Size(5, 200, 8, 3)
    data, pairs = perf.aligning.models(size), perf.lines.pairs_of(5)
    matrices = perf.aligning.all_pairs(data)
    for name, values in perf.aligning.pair_loop(data, pairs).items():
        assert matrices[name][pairs[:, 0], pairs[:, 1]] == pytest.approx(values)
    (line,) = perf.aligning.lines(size)
    assert (line.limit, line.faster) == (3, True)


def test_the_table_is_measured_beside_a_loop_of_the_same_distances(perf):
    gold, given = np.eye(3)[[0, 1] * 8], np.full((1, 16, 3), 1 / 3)
    means = perf.scoring._resampled_means(gold, np.repeat(np.arange(1, 9), 2), given, 4)
    assert means == pytest.approx(np.full((4, 1, 8), np.sqrt(1 - np.sqrt(1 / 3))))  # Hellinger: 1 - sum sqrt(p q)


def test_intervals_written_out_are_those_of_the_engine(perf):
    table, pairs = perf.lines.study(5, 80), perf.lines.pairs_of(5)
    engine = perf.scoring.engine_intervals(align(perf.scoring.trials_of(table, 4)), pairs, 50)
    plain = perf.scoring.plain_intervals(table, pairs, 50)
    for name, found in engine.items():
        assert found.shape == plain[name].shape == (10, 2)
        if name == "class_level_error_similarity":  # it is resampled to first order
            middle, other = found.astype(float).mean(axis=1), plain[name].mean(axis=1)
            assert middle == pytest.approx(other, abs=0.03)
        else:
            assert found.astype(float) == pytest.approx(plain[name], nan_ok=True)


@pytest.mark.slow
def test_peak_of_compare_is_that_of_a_process_of_its_own(perf, tmp_path):
    write(perf.scoring.trials_of(perf.lines.study(6, 100), 4), tmp_path / "trials.parquet")
    seconds, peak = perf.scoring.peak_of_compare(tmp_path / "trials.parquet", 20)
    assert 0 < seconds < 60
    assert 50 < peak < 1000


def test_the_loops_beside_evaluate_give_its_answers(perf, tmp_path):
    """The same photos, the same pixels, the same network: what is timed is the same work."""
    perf.evaluating.write_photos(tmp_path / "photos", 6)
    ways = perf.evaluating.loops("test_resnet", tmp_path / "photos", tmp_path / "runs")
    raw, loader, trials = (ways[way](0) for way in ("raw", "loader", "evaluate"))
    assert raw == pytest.approx(loader, abs=1e-5)
    shares = np.exp(raw - raw.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    assert np.stack(trials.frame["probabilities"].to_list()) == pytest.approx(shares, abs=1e-5)


@pytest.mark.slow
def test_memory_of_evaluate_is_that_of_a_process_of_its_own(perf, tmp_path):
    perf.evaluating.write_photos(tmp_path / "photos", 6)
    assert 50 < perf.evaluating.peak(tmp_path / "photos", tmp_path / "memory") < 3000


def test_coverage_prints_every_table(perf, monkeypatch, capsys):
    asked = []

    def instead(case, *, studies, seed):
        asked.append((case.name, studies, seed))
        return SimpleNamespace(truth=0.5, n=200, share=0.95, below=0.02, above=0.03, wideness=1.0)

    def contrasts_instead(_, names, *, studies, seed, **options):
        asked.append((str(options), studies, seed))
        found = SimpleNamespace(truth=0.1, share=0.95, positive=0.5, wideness=1.0, certain=0.5, rank=1.0)
        return dict.fromkeys(names, found)

    def deliver_few(*args, **options):
        return deliver(*args, **options | {"studies": 1, "resamples": 20})

    plans = {}

    def plan_once(*, pilot, measure, people, **goal):
        """The same plan for every measure and number of people."""
        name = next(iter(goal))
        plans[name] = plans.get(name) or plan(pilot=pilot, measure=measure, people=people, **goal)
        return plans[name]

    monkeypatch.setattr(perf.interval_coverage, "coverage", instead)
    monkeypatch.setattr(perf.interval_coverage, "plan", plan_once)
    monkeypatch.setattr(perf.interval_coverage, "deliver", deliver_few)
    monkeypatch.setattr(perf.interval_coverage, "contrasts", contrasts_instead)
    monkeypatch.setattr(perf.interval_coverage, "simulate", lambda _, __, rng: simulate(12, 400, rng))  # a small pilot
    monkeypatch.setattr("sys.argv", ["interval_coverage.py", "--studies", "2", "--seed", "3"])
    perf.interval_coverage.main()
    tables = capsys.readouterr().out.split("studies for each number")
    assert len(tables) == 1 + len(perf.interval_coverage._TABLES)
    for table in tables[1:]:
        assert len({row.count("|") for row in table.splitlines() if row.startswith("|")}) == 1
    assert {(studies, seed) for _, studies, seed in asked} == {(2, 3)}


def test_every_line_of_laion_cs_memory_is_measured(perf, monkeypatch):
    monkeypatch.setattr(perf.laion_c, "_peak", lambda call, folder: float(len(list(folder.rglob("*.jpeg")))))
    found = list(perf.laion_c.lines(perf.laion_c.Size(2, 5)))
    assert [line.name.split(", ")[1] for line in found] == ["evaluate", "resume", "score"]
    assert {(line.ours, line.theirs, line.unit) for line in found} == {(5, 2, "MB")}


@pytest.mark.slow
def test_memory_of_laion_c_is_that_of_processes_of_their_own(perf, tmp_path):
    used = perf.laion_c.peaks(tmp_path, 16)
    assert set(used) == {"evaluate", "resume", "score"}
    assert all(50 < megabytes < 3000 for megabytes in used.values())


@pytest.mark.slow
def test_a_report_of_many_observers_is_timed(perf):
    found = list(perf.reporting.lines(perf.reporting.Size(12, 300, 10)))
    assert [line.unit for line in found] in ([], ["s", "MB", "s"])  # none without a browser
    assert all(line.ours > 0 for line in found)
