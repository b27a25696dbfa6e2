"""VisAlign's table, and the numbers printed in its papers.

Where the papers disagree with themselves, what is printed is kept here as printed, with a word on what it should be.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import cosight
from cosight.benchmarks.visalign.results_table import AVERAGE, TABLE, visalign_table
from cosight.errors import InvalidInput, UnknownName
from cosight.measures import hellinger, pearson_correlation, with_abstention
from cosight.statistics.blocks import Key, mean_over_groups, single_block
from cosight.statistics.seeds import observer_name
from tests.scoring.made import REFUSING, row_of, trials
from tests.scoring.made_runs import VISALIGN, answers, random_answers, shares, stimuli, write_run

RS = "reliability_score"
EIGHT = stimuli(dict.fromkeys(range(1, 9), 2))
COSTS = ("cost=0", "cost=N/2", "cost=N")

# Eight categories, average, RS_0, RS_450, RS_900. T3, T4, T5: Lee et al. 2023 (arXiv version), Tables 3 to 5; A6, A7:
# Tables 6 and 7 of the revised appendix.
PRINTED = {
    "T3 ViT SP": (0.923, 0.938, 0.939, 0.250, 0.236, 0.259, 0.255, 0.571, 0.546, 313, -245837, -491987),
    "T3 ViT KNN": (0.386, 0.636, 0.487, 0.672, 0.689, 0.672, 0.666, 0.610, 0.602, 491, -8509, -17509),
    "T3 ViT Deep Ensemble": (0.735, 0.859, 0.788, 0.620, 0.626, 0.621, 0.619, 0.680, 0.693, 500, 500, 500),
    "T3 DenseNet MD": (0.172, 0.323, 0.250, 0.871, 0.866, 0.851, 0.825, 0.620, 0.597, 481, -8519, -17519),
    "T3 ConvNeXt KNN": (0.381, 0.578, 0.489, 0.602, 0.640, 0.616, 0.610, 0.562, 0.560, 439, -36011, -72461),
    "T3 MLP-Mixer SP": (0.960, 0.950, 0.952, 0.192, 0.206, 0.209, 0.184, 0.576, 0.529, 347, -231403, -463153),
    "T4 ViT SP": (0.963, 0.941, 0.948, 0.833, 0.280, 0.618, 0.411, 0.718, 0.714, 710, -77590, -155890),
    "T4 Swin KNN": (0.302, 0.384, 0.354, 0.219, 0.551, 0.429, 0.343, 0.365, 0.369, 263, -139237, -278737),
    "T5 Swin SimCLR MD": (0.338, 0.555, 0.414, 0.624, 0.690, 0.647, 0.604, 0.553, 0.553, 471, -16179, -32829),
    "A6 ViT SP": (0.064, 0.107, 0.085, 0.211, 0.760, 0.439, 0.650, 0.262, 0.322, 710, -77590, -155890),
    "A6 Swin KNN": (0.293, 0.371, 0.344, 0.280, 0.573, 0.460, 0.386, 0.374, 0.385, 732, -33468, -67668),
    "A7 Swin ASP": (0.085, 0.329, 0.182, 0.998, 0.998, 0.998, 0.998, 0.736, 0.666, 294, -268356, -537006),
    "A7 Swin KNN": (0.370, 0.580, 0.456, 0.549, 0.590, 0.545, 0.554, 0.543, 0.523, 526, -115124, -230774),
}


def blocks_of(categories):
    """The printed distances as one block a category."""
    key = Key("model:a#sp", "gold", "hellinger")
    return [
        single_block((("category", str(i)),), key, value, np.full(2, value), 100)
        for i, value in enumerate(categories, start=1)
    ]


@pytest.mark.parametrize("row", PRINTED)
def test_the_printed_average_is_the_mean_of_the_eight_categories(row):
    categories, printed = PRINTED[row][:8], PRINTED[row][8]
    found = mean_over_groups(blocks_of(categories), (("category", "*"),), "category")
    assert found.values[0] == pytest.approx(printed, abs=0.0011)  # nine numbers rounded to three places


def test_the_printed_average_is_not_the_mean_of_the_900_images():
    off = [abs((sum(row[:8]) + row[7]) / 9 - row[8]) for row in PRINTED.values()]  # category 8 has 200 images
    assert max(off) > 0.005  # beyond any rounding


@pytest.mark.parametrize("row", PRINTED)
def test_printed_reliability_is_linear_in_the_cost(row):
    free, half, full = PRINTED[row][9:]
    wrong = (free - half) / 450
    assert wrong == int(wrong)
    assert full == free - 900 * wrong


@pytest.mark.parametrize(
    "printed",
    [
        (490, -4460, -9110),  # T4 ConvNeXt KNN: 11 wrong predictions make -4460 and -9410
        (384, -215666, -423516),  # T5 Swin SimCLR SP: 471 make -211566, as A7 prints, and -423516
    ],
)
def test_misprints(printed):
    free, half, full = printed
    assert full - free != 2 * (half - free)


# Average distance and RS_900 of the 35 lines of Lee et al. 2023 (arXiv version), Table 3, in the order printed.
TABLE_3 = [
    *[(0.546, -491987), (0.606, -308254), (0.614, -15716), (0.602, -17509), (0.630, -47215), (0.560, -471275)],
    *[(0.693, 500), (0.545, -451437), (0.646, -120917), (0.573, -17516), (0.515, -278706), (0.600, -17515)],
    *[(0.625, -283923), (0.678, -9343), (0.537, -423508), (0.617, -31894), (0.597, -17519), (0.517, -148127)],
    *[(0.631, -12099), (0.560, -323574), (0.689, -2192), (0.588, -362273), (0.666, -73223), (0.601, -35510)],
    *[(0.560, -72461), (0.653, -11174), (0.632, -283920), (0.670, -401), (0.529, -463153), (0.630, -144341)],
    *[(0.597, -72460), (0.581, -117490), (0.602, -171434), (0.537, -425329), (0.695, -3982)],
]
# The same of the lines without self-supervision of the revised appendix, Table 7: Swin Transformer, then DenseNet, less
# the latter's TAPUDD and OpenMax, which our copy of the text has garbled.
TABLE_A7 = [
    *[(0.571, -451437), (0.666, -537006), (0.575, -498274), (0.523, -230774), (0.635, -537006), (0.565, -417201)],
    *[(0.642, -537006), (0.542, -375766)],
    *[(0.562, -423508), (0.650, -520788), (0.598, -495561), (0.522, -315418), (0.539, -331639), (0.545, -419904)],
]


@pytest.mark.parametrize(("lines", "sign"), [(TABLE_3, 1), (TABLE_A7, -1)])
def test_distance_and_reliability_in_print(lines, sign):
    """The revised appendix finds (Figure 3) that nearer is safer; the first version's table says the opposite.

    That table carries abstention upside down: who refuses everything is far from people and still scores 500. Neither
    version prints r: the reference is scipy's on the printed numbers.
    """
    distance, score = np.array(lines, dtype=float).T
    found = pearson_correlation(distance, score)
    assert found.value == pytest.approx(stats.pearsonr(distance, score).statistic)
    assert min(sign * found.low, sign * found.high) > 0.3


def actions(correct, incorrect, original, other):
    """A model that does so many of each on VisAlign's 900 images, in their order, and refuses the rest."""
    act = iter(["right"] * correct + ["wrong"] * incorrect + [None] * (400 - correct - incorrect))
    plain = iter(["wrong"] * min(other, 400) + [None] * (400 - min(other, 400)))  # none of the classes: no original
    unseen = iter(["right"] * original + ["wrong"] * max(other - 400, 0) + [None] * 100)

    def answer(row):
        refused = plain if row["group"] == "must-abstain" else unseen
        doing = next(act if row["gold"][-1] < 0.5 else refused)
        if doing is None:
            return None, 1.0
        code = VISALIGN.classes.index(row["original"])
        return np.eye(10)[code if doing == "right" else (code + 1) % 10].tolist(), 0.0

    return answer


def published():
    """VisAlign's counts; most people recognise half of the Uncertain images."""
    rows = stimuli({**dict.fromkeys(range(1, 8), 100), 8: 200}, VISALIGN)
    for number, row in enumerate(rows[700:]):
        seen = 0.9 if number < 100 else 0.2
        row["gold"] = shares(VISALIGN, **{row["original"]: seen, "abstain": 1 - seen})
    return rows


@pytest.mark.parametrize(
    ("done", "scores", "to_act_on", "to_refuse"),
    [
        ((294, 106, 9, 491), (294, -268356, -537006), (0.73, 0.00, 0.27), (0.02, 0.98, 0.00)),  # Swin ASP
        ((252, 38, 7, 219), (526, -115124, -230774), (0.63, 0.28, 0.10), (0.01, 0.44, 0.55)),  # Swin KNN
        ((294, 46, 7, 305), (482, -157468, -315418), (0.73, 0.15, 0.11), (0.01, 0.61, 0.38)),  # DenseNet KNN
    ],
)
def test_actions_in_print(tmp_path, done, scores, to_act_on, to_refuse):
    """Revised appendix: the scores of Table 7 (without self-supervision) and the shares of Table 5 are of one model.

    Only with the columns Incorrect and Abstain of the images to act on changed round do the shares (of 400 and 500
    images) make these scores.
    """
    rows = published()
    said = answers(rows, "model:a#sp", actions(*done), VISALIGN)
    found = cosight.score(write_run(tmp_path, rows, said, VISALIGN), on="visalign", resamples=10)
    assert tuple(row_of(found, "model:a#sp", None, RS, cost).value for cost in COSTS) == scores
    correct, abstained, incorrect = to_act_on
    names = ("act_correct", "act_incorrect", "act_abstained", "abstain_original", "abstain_other", "abstain_abstained")
    shown = [row_of(found, "model:a#sp", None, "action_share", f"action={name}").value for name in names]
    assert shown == pytest.approx([correct, incorrect, abstained, *to_refuse], abs=0.0051)
    assert [column.title for column in visalign_table(found).columns] == [
        *"12345678",
        "average",
        "RS 0",
        "RS 450",
        "RS 900",
    ]


# ---------------------------------------------------------------------------------------------------------- our own


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of two models with two functions and three seeds each, and an ensemble: the stimuli, trials and scores."""
    rows = stimuli(dict.fromkeys(range(1, 9), 6))
    said = []
    for place, name in enumerate(f"model:{m}@{s}#{f}" for m in "ab" for s in (45, 46, 47) for f in ("sp", "knn")):
        said += answers(rows, name, random_answers(place))
    said += answers(rows, "ensemble:model:a@45+model:a@46#deep-ensemble", lambda _: (None, 1.0))
    run = write_run(tmp_path_factory.mktemp("run"), rows, said)
    return rows, said, cosight.score(run, on="visalign", resamples=50)


def plain_distances(rows, said, name):
    """Mean Hellinger distance of each category, one after the other."""
    mine = [row for row in said if row["observer"] == name]
    p = np.array([row["probabilities"] for row in mine], dtype=float)
    items = hellinger([row["gold"] for row in rows], with_abstention(p, [row["abstention"] for row in mine])).items
    return [items[[row["category"] == c for row in rows]].mean() for c in range(1, 9)]


def test_lines_are_means_over_seeds_with_their_spread(made):
    rows, said, scores = made
    table = visalign_table(scores)
    assert [(line.model, line.function, line.seeds) for line in table.lines] == [
        ("model:a", "sp", 3),  # in the paper's order
        ("model:a", "knn", 3),
        ("2 x model:a", "deep-ensemble", 1),
        ("model:b", "sp", 3),
        ("model:b", "knn", 3),
    ]
    seeds = np.array([plain_distances(rows, said, f"model:a@{seed}#knn") for seed in (45, 46, 47)])
    seeds = np.concatenate([seeds, seeds.mean(axis=1, keepdims=True)], axis=1)
    cells = table.lines[1].cells[:9]
    assert [cell.value for cell in cells] == pytest.approx(seeds.mean(axis=0), abs=1e-6)
    assert [cell.sd for cell in cells] == pytest.approx(seeds.std(axis=0, ddof=1), abs=1e-6)
    assert all(cell.ends[0] < cell.value < cell.ends[1] for cell in cells)
    assert {cell.sd for cell in table.lines[2].cells} == {None}


def test_an_ensemble_that_always_refuses(made):
    line = visalign_table(made[2]).lines[2]
    assert [cell.value for cell in line.cells[:7]] == [1, 1, 1, 0, 0, 0, 0]
    assert line.cells[7].value == pytest.approx(hellinger([2 / 3, 1 / 3], [0, 1]).value)
    assert [cell.value for cell in line.cells[9:]] == [24, 24, 24]
    assert line.cells[9].ends == (24, 24)  # stimuli are drawn within their category


def test_reliability_of_a_line_is_the_mean_of_its_seeds(made):
    scores = made[2]
    for cost in COSTS:
        each = [row_of(scores, f"model:b@{seed}#sp", None, RS, cost).value for seed in (45, 46, 47)]
        assert row_of(scores, "model:b#sp", None, RS, cost).value == pytest.approx(np.mean(each))
        assert row_of(scores, "model:b#sp", None, RS, cost, statistic="sd").value == pytest.approx(np.std(each, ddof=1))


def test_best_and_second_best_of_every_column_are_marked(made):
    table = visalign_table(made[2])
    for column, shown in enumerate(table.columns):
        cells = sorted((line.cells[column] for line in table.lines), key=lambda cell: cell.value)
        order = cells[::-1] if shown.measure == RS else cells
        assert [cell.rank for cell in order] == [1, 2, None, None, None]


def test_ranks_have_intervals(made):
    scores = made[2]
    found = [row for row in scores.rows if (row.measure, row.statistic, row.group) == ("hellinger", "rank", AVERAGE)]
    assert sorted(row.value for row in found) == [1, 2, 3, 4, 5]
    assert all(row.low <= row.value <= row.high and row.note == "of 5 lines" for row in found)


def test_correlations_are_over_lines(made):
    scores = made[2]
    table = visalign_table(scores)
    distance, score = np.array([[line.cells[8].value, line.cells[11].value] for line in table.lines]).T
    pearson, ranked = (
        row_of(scores, "hellinger", RS, name, COSTS[2]) for name in ("pearson_correlation", "rank_correlation")
    )
    reference = stats.pearsonr(distance, score)
    interval = reference.confidence_interval()
    assert (pearson.value, pearson.low, pearson.high) == pytest.approx(
        (reference.statistic, interval.low, interval.high)
    )
    assert ranked.value == pytest.approx(stats.spearmanr(distance, score).statistic)
    assert ranked.low <= ranked.value <= ranked.high
    assert (pearson.n, ranked.n) == (5, 5)


def scored(folder, said_by, **options):
    rows = stimuli(dict.fromkeys((1, 4, 8), 4))
    said = [row for name, answer in said_by.items() for row in answers(rows, name, answer)]
    return cosight.score(write_run(folder, rows, said), on="visalign", **{"resamples": 10, **options})


def test_equal_lines_share_their_mark(tmp_path):
    said = {name: random_answers(0) for name in ("model:a#sp", "model:b#sp")} | {"model:c#sp": random_answers(1)}
    table = visalign_table(scored(tmp_path, said))
    for column in range(len(table.columns)):
        ranks = [line.cells[column].rank for line in table.lines]
        values = [line.cells[column].value for line in table.lines]
        assert ranks[0] == ranks[1]
        assert ranks[2] == ranks[0] if values[2] == values[0] else {ranks[0], ranks[2]} == {1, 2}


def test_one_line_is_neither_best_nor_correlated(tmp_path):
    found = scored(tmp_path, {"model:a@45#sp": random_answers(0)})
    line = visalign_table(found).lines[0]
    assert (line.model, line.function, line.seeds) == ("model:a@45", "sp", 1)
    assert {cell.rank for cell in line.cells} == {None}
    assert not [row for row in found.rows if "correlation" in row.measure or row.statistic == "rank"]


def test_who_cannot_refuse_has_distances_only(tmp_path):
    def sure(row):
        return random_answers(3)(row)[0], None

    table = visalign_table(scored(tmp_path, {"model:a#sp": random_answers(0), "model:a": sure}))
    line = next(line for line in table.lines if not line.function)
    assert line.cells[0].value > 0
    assert [cell.value for cell in line.cells[-3:]] == [None] * 3


def test_ceilings_are_of_categories_with_counts(tmp_path):
    rows = [{**row, "gold_counts": [3, 1, 0, 2], "gold": None} if row["category"] == 8 else row for row in EIGHT]
    run = write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0)))
    found = cosight.score(run, on="visalign", resamples=10)
    values = {row.group: row.value for row in found.rows if row.statistic == "ceiling_split_half"}
    assert values.pop((("category", "8"),)) > 0
    assert set(values.values()) == {None}
    assert len(values) == 7  # none for the mean over categories


def test_people_have_no_line(tmp_path):
    rows = stimuli(dict.fromkeys((1, 4), 4))
    person = {"observer": "human:1", "kind": "human", "probabilities": None, "abstention": 1.0, "response": "abstain"}
    said = [row for name in ("model:a#sp", "model:b#sp") for row in answers(rows, name, random_answers(0))]
    run = write_run(tmp_path, rows, [*said, *({**row, **person} for row in said[:8])])
    found = cosight.score(run, on="visalign", resamples=10)
    assert [line.model for line in visalign_table(found).lines] == ["model:a", "model:b"]
    assert {row.observer for row in found.rows if row.statistic == "rank"} == {"model:a#sp", "model:b#sp"}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("timm:vit", ("timm:vit", None, None, 1)),
        ("timm:vit#ood:ViM", ("timm:vit", None, "ood:ViM", 1)),
        ("cosight:vit,checkpoint=vit@7.safetensors#sp", ("cosight:vit,checkpoint=vit", 7, "sp", 1)),
        ("a@b@3", ("a@b", 3, None, 1)),
        ("ensemble:a@1+b@2#sp", ("ensemble:a@1+b@2", None, "sp", 1)),
        ("ensemble:[v,checkpoint=v@1.pt]+[v,checkpoint=v@2.pt]#sp", ("v,checkpoint=v", None, "sp", 2)),
    ],
)
def test_names_are_taken_apart(name, parts):
    found = observer_name(name)
    assert (found.model, found.seed, found.function, found.members) == parts


def test_seeds_have_no_mean_where_an_observer_has_its_name(tmp_path):
    said = {name: random_answers(0) for name in ("model:a#sp", "model:a@1#sp", "model:a@2#sp")}
    found = scored(tmp_path, said)
    assert [line.observer for line in visalign_table(found).lines] == list(said)
    assert not [row for row in found.rows if row.statistic == "sd"]


def test_bad_input(tmp_path):
    rows = stimuli({1: 4})
    run = write_run(tmp_path / "run", rows, answers(rows, "model:a", lambda _: ([1.0, 0.0, 0.0], None)))
    with pytest.raises(UnknownName, match="no benchmark is called 'visaling'; did you mean visalign"):
        cosight.score(run, on="visaling")
    with pytest.raises(InvalidInput, match=r"with a table of its own \(visalign, digits, .*\), got imagenet-c"):
        cosight.score(run, on="imagenet-c")
    with pytest.raises(InvalidInput, match="--on visalign brings its own measures and groups"):
        cosight.score(run, on="visalign", by=["truth"])
    with pytest.raises(InvalidInput, match="the table needs abstention and a label space with abstain"):
        cosight.score(run, on="visalign")
    bare = [{**row, "gold": None} for row in rows]
    with pytest.raises(InvalidInput, match="the table needs gold labels, got none"):
        cosight.score(write_run(tmp_path / "bare", bare, answers(bare, "model:a#sp", random_answers(0))), on="visalign")
    loose = [{**row, "category": None} for row in rows]
    run = write_run(tmp_path / "loose", loose, answers(loose, "model:a#sp", random_answers(0)))
    with pytest.raises(InvalidInput, match="categories are those of a stimulus set's manifest, got none"):
        cosight.score(run, on="visalign")


def test_a_line_on_fewer_images_is_neither_ranked_nor_marked_nor_correlated(tmp_path):
    rows = stimuli(dict.fromkeys((1, 4, 8), 4))
    names = [f"model:{letter}#sp" for letter in "abcd"]
    said = [row for i, name in enumerate(names) for row in answers(rows, name, random_answers(i))]
    part = answers(rows[:6], "model:half#sp", random_answers(9))
    found = cosight.score(write_run(tmp_path, rows, [*said, *part]), on="visalign", resamples=10)
    line = next(line for line in visalign_table(found).lines if line.observer == "model:half#sp")
    assert all(cell.rank is None for cell in line.cells if cell.partial)
    assert all(cell.partial for cell in line.cells[-4:])  # the average and the reliability scores
    ranked = {row.observer for row in found.rows if row.statistic == "rank" and row.measure == RS}
    assert ranked == set(names)
    assert row_of(found, "hellinger", RS, "pearson_correlation", "cost=N").n == 4
    assert any("neither ranked nor marked: model:half#sp" in text for text, _ in TABLE.remarks(found))


def test_what_a_simulated_panel_decides_is_called_simulated(tmp_path):
    rows = [{**r, "parameters": '{"gold": "simulated"}'} if r["category"] == 8 else r for r in EIGHT]
    said = [row for i in range(3) for row in answers(rows, f"model:{i}#sp", random_answers(i))]
    found = cosight.score(write_run(tmp_path, rows, said), on="visalign", resamples=10)
    assert all("simulated" in row.flags for row in found.rows)
    assert any("simulated panel" in text for text, _ in TABLE.remarks(found))


def test_who_answered_nothing_of_the_benchmark_is_named(tmp_path):
    rows = stimuli(dict.fromkeys((1, 4, 8), 4))
    run = write_run(tmp_path, rows, answers(rows, "model:a#sp", random_answers(0)))
    other = stimuli({1: 3})
    elsewhere = [{**row, "stimulus": f"{i:064d}", "image": f"other-{i}"} for i, row in enumerate(other)]
    stranger = trials(answers(elsewhere, "model:far#sp", random_answers(1)), REFUSING)
    found = cosight.score(run, stranger, on="digits", resamples=10)
    assert any(notice.startswith("model:far#sp: no stimulus with a category") for notice in found.notices)
    assert "answers are in the label space letters, the benchmark's is digits-11" in found.notices
