"""LAION-C: which photos it is made of, its layout, its table and direct computations, occlusion, the mirror."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats
from sklearn.datasets import load_sample_images

import cosight
from cosight.benchmarks import benchmarks
from cosight.benchmarks.altering import photo_alterations
from cosight.benchmarks.building.source_photos import read_photos
from cosight.benchmarks.laion_c.occlusion import object_occlusion, occlusion_notices, write_occlusion
from cosight.benchmarks.laion_c.photo_selection import select_photos
from cosight.benchmarks.laion_c.published import AVERAGE_PERSON, BEST_PERSON, DISTORTIONS, FINE_TUNED, PREFIX, TABLE_10
from cosight.benchmarks.laion_c.results_table import ALL_TRIALS, BEST, OVERALL, laion_c_table, set_mean
from cosight.data import data_sets, get
from cosight.errors import InvalidInput
from cosight.measures import error_consistency, reachable_kappa
from cosight.reports.figures import FigureRequest, figure, figures
from cosight.stimuli import encode
from cosight.stimuli.generate import generate_set
from cosight.stimuli.sets import read_set, sample_per_class, verify, with_classes
from cosight.trials import make_trials, write
from cosight.trials.manifest import read_manifest
from cosight.trials.spaces import label_spaces

SPACE = label_spaces["laion-c-16"]
LAION_C = benchmarks["laion-c"]
IMAGENET = label_spaces["imagenet-1k"]
FIRST = {name: group[0] for name, group in zip(SPACE.classes, SPACE.members, strict=True)}  # a WordNet id per class


def write_photos(folder, names, each=1, *, side=40):
    """Parts of a real photo, no two alike, in one folder per name."""
    photo = load_sample_images().images[0]
    for row, name in enumerate(names):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for column in range(each):
            part = photo[20 * row : 20 * row + side, 30 * column : 30 * column + side]
            (folder / name / f"{name}-{column}.png").write_bytes(encode(np.ascontiguousarray(part), "png"))
    return folder


@pytest.fixture(scope="module")
def by_id(tmp_path_factory):
    """Two photos in the folder of one WordNet id of each superclass, and two of a class that belongs to none."""
    return write_photos(tmp_path_factory.mktemp("photos"), [*FIRST.values(), "n15075141"], 2)


class TestPhotos:
    def test_wordnet_ids_become_superclasses_and_others_are_left_out(self, by_id):
        photos, notices = select_photos(by_id, labels="laion-c-16")
        counts = dict(photos.frame.group_by("truth").len().iter_rows())
        assert counts == dict.fromkeys(SPACE.classes, 2)
        assert set(photos.frame["original"]) == set(FIRST.values())  # the folder stays known
        assert notices[0] == "left out: 2 of 34 photos, whose classes belong to none of laion-c-16"

    @pytest.mark.parametrize(
        "folder_of",
        [str, lambda name: str(IMAGENET.classes.index(FIRST[name])), lambda name: {"tools": "tool"}.get(name, name)],
        ids=["superclasses", "numbers of ImageNet classes", "aliases"],
    )
    def test_other_names_of_folders(self, folder_of, tmp_path):
        write_photos(tmp_path, [folder_of(name) for name in SPACE.classes])
        photos, notices = select_photos(tmp_path, labels="laion-c-16")
        assert sorted(photos.frame["truth"]) == sorted(SPACE.classes)
        assert notices == ["16 photos of 16 superclasses"]

    def test_so_many_per_class_are_drawn_by_their_names(self, by_id):
        one, again, other = (
            select_photos(by_id, labels="laion-c-16", per_class=1, seed=seed)[0].frame["file"].to_list()
            for seed in (0, 0, 1)
        )
        assert len(one) == 16
        assert one == again != other
        both = select_photos(by_id, labels="laion-c-16", per_class=2)[0].frame["file"].to_list()
        assert set(one) < set(both)

    def test_evaluate_draws_the_same_photos_per_class(self, tmp_path):
        for member in (0, 1):
            write_photos(tmp_path, [group[member] for group in SPACE.members], 2)
        for path in tmp_path.rglob("*.png"):  # names that say nothing without their folder
            path.rename(path.with_name(f"{path.stem[-1]}.png"))
        built = select_photos(tmp_path, labels="laion-c-16", per_class=3)[0].frame["file"].to_list()
        photos, _ = with_classes(read_set(tmp_path), SPACE)
        assert sample_per_class(photos, 3, seed=0).frame["file"].to_list() == built
        assert len(built) == 16 * 3

    def test_a_list_of_files_chooses_photos(self, by_id, tmp_path):
        chosen = [f"{name}/{name}-1.png" if row % 2 else f"{name}-1.png" for row, name in enumerate(FIRST.values())]
        (tmp_path / "chosen.txt").write_text("# second photos\n\n" + "\n".join(chosen) + "\n")
        photos, _ = select_photos(by_id, labels="laion-c-16", files=tmp_path / "chosen.txt")
        assert all(file.endswith("-1.png") for file in photos.frame["file"])
        assert len(photos) == 16

    def test_bad_input_is_one_line_and_writes_nothing(self, cosight, by_id, tmp_path):
        few = write_photos(tmp_path / "few", ["cat", "dog"])
        wrong = write_photos(tmp_path / "wrong", ["n02799071", "n00000000"])
        mixed = write_photos(tmp_path / "mixed", ["cat", "giraffe"])
        other = write_photos(tmp_path / "other", ["n15075141"])
        plain = tmp_path / "plain"
        shutil.copytree(few / "cat", plain)
        twice = write_photos(tmp_path / "twice", SPACE.classes)
        for name in ("cat", "dog"):
            (twice / name / f"{name}-0.png").rename(twice / name / "same.png")
        (tmp_path / "gone.txt").write_text("n02799071-0.png\nnothere.png\nnorthis.png\n")
        (tmp_path / "same.txt").write_text("same.png\n")
        (tmp_path / "empty.txt").write_text("# none\n")
        files = {name: tmp_path / f"{name}.txt" for name in ("gone", "same", "empty")}
        for line, words in (
            ([few], "each of the 16 superclasses needs 1 photo, .* fewer of some: ball 0, bird 0, boat 0 and 11 more"),
            ([by_id, "--per-class", 3], "needs 3 photos, .* ball 2, .* a smaller --per-class"),
            ([by_id, "--per-class", 0], "--per-class must be"),
            ([wrong], "or all of them classes of imagenet-1k .*got 'n00000000'"),
            ([mixed], "got 'giraffe'"),
            ([other], "has no image of a class of laion-c-16"),
            ([plain], "has no such folder; make one per class"),
            ([by_id, "--files", files["gone"]], "names photos that .* does not have: nothere.png, northis.png"),
            ([twice, "--files", files["same"]], "several folders of .* have; write FOLDER/NAME: same.png"),
            ([by_id, "--files", files["empty"]], "names none; write one file name per line"),
            ([by_id, "--files", tmp_path / "missing.txt"], "cannot read .*missing.txt"),
        ):
            done = cosight("build", "laion-c", line[0], tmp_path / "out", *line[1:], "--workers", 1)
            assert (done.code, done.err.count("\n")) == (2, 1), done.err
            assert pl.Series([done.err]).str.contains(words)[0], done.err
            assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def few_photos(tmp_path_factory):
    """Three photos of one name, 200 x 300, in folders of WordNet ids; one has a mask of its left half."""
    folder = tmp_path_factory.mktemp("few")
    for index, name in enumerate(("cat", "fish", "ball")):
        place = folder / FIRST[name]
        place.mkdir()
        photo = load_sample_images().images[index % 2][50 * index : 50 * index + 200, 100:400]
        (place / "photo.png").write_bytes(encode(np.ascontiguousarray(photo), "png"))
    mask = np.zeros((200, 300), np.uint8)
    mask[:, :150] = 255
    (place / "photo.mask.png").write_bytes(encode(mask, "png"))
    return folder


def recipe_of(photos, out, **options):
    sources, _ = with_classes(read_photos(photos).stimuli, SPACE)
    return photo_alterations(LAION_C, sources, out, tile_images=photos, labels="laion-c-16", **options)


class TestLayout:
    def test_a_set_has_the_layout_of_the_published_one(self, few_photos, tmp_path):
        recipe, notices = recipe_of(few_photos, tmp_path / "set")
        chosen = tuple(how for how in recipe.alterations if how.level in (0, 2) and how.kind != "mosaic")
        made = generate_set(replace(recipe, alterations=chosen), tmp_path / "set").stimuli
        fish = FIRST["fish"]
        assert f"images/stickers/intensity_level_2/fish/{fish}_photo.png" in made.frame["file"].to_list()
        assert f"images/clean/intensity_level_0/fish/{fish}_photo.png" in made.frame["file"].to_list()
        assert "draw from 3 tiles, the published set drew from 50,000" in notices[0]  # the mask is no tile
        assert made.facts["settings"]["labels"] == "laion-c-16"
        assert verify(made).intact
        folder = read_set(tmp_path / "set" / "images").frame
        columns = ["experiment", "condition", "level", "truth"]
        assert_frame_equal(folder.select(columns).sort(columns), made.frame.select(columns).sort(columns))
        photos = folder.group_by("parent").len()  # what the intervals draw
        assert dict(photos.iter_rows()) == {f"{name}/{FIRST[name]}_photo": 6 for name in ("cat", "fish", "ball")}

    def test_the_geometry_of_glitches_is_an_option(self, few_photos, tmp_path):
        recipe, _ = recipe_of(few_photos, tmp_path, geometry="published")
        glitched = next(how for how in recipe.alterations if how.kind == "glitched")
        assert glitched.parameters["geometry"] == "published"
        with pytest.raises(InvalidInput, match="geometry must be per-image or published, got 'other'"):
            recipe_of(few_photos, tmp_path, geometry="other")

    def test_photos_without_a_class_are_refused(self, few_photos, tmp_path):
        sources = read_set(few_photos)
        unknown = replace(sources, frame=sources.frame.with_columns(truth=pl.lit(None, pl.String)))
        with pytest.raises(InvalidInput, match="photos must be in class folders"):
            photo_alterations(LAION_C, unknown, tmp_path, tile_images=few_photos)


MODEL = """
import numpy as np

def colours():
    weights = np.random.default_rng(0).normal(size=(3, 1000)).astype(np.float32)
    return lambda images: images.mean(axis=(2, 3)) @ weights
"""


def test_evaluating_on_the_fly_reports_what_to_know(by_id, few_photos, tmp_path, monkeypatch, cosight):
    """Folders of WordNet ids, a class outside the superclasses, few tiles; and where the table is."""
    shutil.copytree(by_id, tmp_path / "photos")
    shutil.copytree(few_photos / FIRST["ball"], tmp_path / "photos" / FIRST["ball"], dirs_exist_ok=True)
    shutil.copy(few_photos / FIRST["ball"] / "photo.png", tmp_path / "photos" / "n15075141")
    (tmp_path / "colours.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    model = "python:colours:colours,size=16,mean=0,std=1"
    options = ["--source", "photos", "--geometry", "published", "--limit", 3, "--out", "run"]
    done = cosight("evaluate", model, "--on", "laion-c", *options)
    assert done.code == 0, done.err
    assert "left out: 3 of 36 images, whose classes belong to none of laion-c-16" in done.err
    assert "mosaic and stickers draw from 35 tiles" in done.err  # one photo is there twice, and the mask is none
    assert done.out.splitlines()[-1] == "the benchmark's table: cosight score run --on laion-c"
    frame = read_manifest(tmp_path / "run")[0]
    assert frame["condition"].n_unique() == 7
    assert all("published" in text for text in frame.filter(pl.col("condition") == "glitched")["parameters"])
    for line in (
        ("--on", "photos", "--labels", "laion-c-16", "--geometry", "published", "--out", "new"),
        ("--on", "imagenet-c", "--source", "photos", "--tiles", "photos", "--out", "new"),
    ):
        refused = cosight("evaluate", model, *line)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "is an option of benchmarks that distort photos" in refused.err


class TestOcclusion:
    @pytest.fixture(scope="class")
    @staticmethod
    def shares(few_photos, tmp_path_factory):
        recipe, _ = recipe_of(few_photos, tmp_path_factory.mktemp("tiles"))
        return list(object_occlusion(recipe))

    def test_only_photos_with_masks_count(self, shares):
        assert {row.image for row in shares} == {f"{FIRST['ball']}_photo.png"}
        assert len(shares) == 2 * 5

    @pytest.mark.parametrize(
        ("kind", "covered"),
        # of the image, as the counts and sizes imply (recomputed by simulation): 40.6 to 99.8 % and 21.0 to 78.6 %
        [("stickers", (0.406, 0.640, 0.874, 0.955, 0.998)), ("geometric_shapes", (0.21, 0.368, 0.6, 0.703, 0.786))],
    )
    def test_as_much_is_covered_as_the_parameters_imply(self, kind, covered, shares):
        found = [row.share for row in sorted(shares, key=lambda row: row.level) if row.condition == kind]
        assert found == pytest.approx(covered, abs=0.06)  # half an image: one draw

    def test_they_are_stored_and_shown_with_the_published_ones(self, shares, tmp_path):
        write_occlusion(shares, tmp_path)
        stored = pl.read_csv(tmp_path / "occlusion.csv")
        assert stored["share"].to_list() == pytest.approx([row.share for row in shares], abs=1e-6)
        notices = occlusion_notices(shares)
        assert any("stickers cover" in text and "65.8% 76.5% 86.2% 89.5% 91.6%" in text for text in notices)
        assert occlusion_notices([]) == []

    def test_a_mask_of_another_size_is_named(self, few_photos, tmp_path):
        shutil.copytree(few_photos, tmp_path / "photos")
        path = tmp_path / "photos" / FIRST["ball"] / "photo.mask.png"
        path.write_bytes(encode(np.full((10, 10), 255, np.uint8), "png"))
        recipe, _ = recipe_of(tmp_path / "photos", tmp_path / "out")
        with pytest.raises(InvalidInput, match=r"photo\.mask\.png: a mask has its photo's height"):
            list(object_occlusion(recipe))


# ---- the table

CLASSES = SPACE.classes[:4]
PHOTOS = 12


def right_of(observer, condition, level, photo):
    """Whether an observer is right: a fixed draw, of a skill that falls with the level."""
    skill = {"model:a": 0.95, "model:b": 0.8, "model:c": 0.9, "model:d": 0.5}.get(observer, 0.85)
    harder = 0.12 * level * (1 + DISTORTIONS.index(condition) / 5) if condition in DISTORTIONS else 0.05 * level
    draw = np.random.default_rng([photo, level, sum(map(ord, condition)), sum(map(ord, observer))]).random()
    return bool(draw < skill - harder)


def trials_of(observers, experiment="laion-c", conditions=DISTORTIONS, *, shown=lambda *_: True, names=False):
    rows = []
    for observer in observers:
        for condition in conditions:
            for level in [0] if condition == "clean" else range(1, 6):
                for photo in range(PHOTOS):
                    if not shown(observer, condition, level, photo):
                        continue
                    truth = CLASSES[photo % 4]
                    right = right_of(observer, condition, level, photo)
                    row = {
                        "observer": observer,
                        "kind": observer.split(":")[0],
                        "experiment": experiment,
                        "condition": condition,
                        "level": level,
                        "image": f"{photo}.png",
                        "truth": truth,
                        "response": truth if right else CLASSES[(photo + 1) % 4],
                    }
                    digest = {"stimulus": f"{experiment}-{condition}-{level}-{photo}"}
                    rows.append(row if names else {**row, **digest})
    return pl.DataFrame(rows)


MODELS = ("model:a", "model:b", "model:c", "model:d")
PEOPLE = tuple(f"human:{number}" for number in range(6))


def saw(observer, condition, level, photo):
    """Two people per distortion, each with half of the photos at every level: one answer per image."""
    pair = DISTORTIONS.index(condition) // 2
    number = int(observer[-1])
    return number // 2 == pair and photo % 2 == number % 2


@pytest.fixture(scope="module")
def models():
    return trials_of(MODELS, conditions=(*DISTORTIONS, "clean"))


@pytest.fixture(scope="module")
def scores(models):
    corrupted = trials_of(MODELS, "imagenet-c", ("fog", "blur"))
    return cosight.score(
        pl.concat([models, corrupted]),
        humans=trials_of(PEOPLE, shown=saw),
        on="laion-c",
        labels="laion-c-16",
        cluster_by="image",
        resamples=60,
        progress=False,
    )


def value(scores, observer, group, measure="accuracy", **more):
    wanted = {"observer": observer, "group": group, "measure": measure, "statistic": "value", "against": None, **more}
    (row,) = [row for row in scores.rows if all(getattr(row, name) == want for name, want in wanted.items())]
    return row


def group_of(condition, level):
    return (("experiment", "laion-c"), ("condition", condition), ("level", str(level)))


class TestTable:
    def test_accuracies_are_means_of_means(self, scores, models):
        right = models.with_columns(right=pl.col("truth") == pl.col("response"))
        distorted = right.filter(pl.col("condition") != "clean")
        cells = distorted.group_by("observer", "condition", "level").agg(pl.col("right").mean())
        by_condition = cells.group_by("observer", "condition").agg(pl.col("right").mean())
        for observer, condition, expected in by_condition.iter_rows():
            assert value(scores, observer, group_of(condition, "*")).value == pytest.approx(expected)
        for observer, expected in by_condition.group_by("observer").agg(pl.col("right").mean()).iter_rows():
            row = value(scores, observer, OVERALL)
            assert row.value == pytest.approx(expected)
            assert row.low < row.value < row.high
            assert row.clusters == PHOTOS  # photos are drawn, not single stimuli
        for observer, level, expected in cells.group_by("observer", "level").agg(pl.col("right").mean()).iter_rows():
            assert value(scores, observer, group_of("*", level)).value == pytest.approx(expected)
        clean = right.filter(pl.col("condition") == "clean").group_by("observer").agg(pl.col("right").mean())
        for observer, expected in clean.iter_rows():
            assert value(scores, observer, group_of("clean", 0)).value == pytest.approx(expected)

    def test_the_best_person_is_chosen_by_distortion(self, scores):
        for condition in DISTORTIONS:
            people = [
                row.value
                for row in scores.rows
                if row.observer in PEOPLE and row.group == group_of(condition, "*") and row.statistic == "value"
            ]
            assert len(people) == 2
            assert value(scores, BEST, group_of(condition, "*")).value == max(people)
        means = [value(scores, BEST, group_of(condition, "*")).value for condition in DISTORTIONS]
        assert value(scores, BEST, OVERALL).value == pytest.approx(np.mean(means))
        pooled = [value(scores, "people", group_of(condition, "*")).value for condition in DISTORTIONS]
        assert value(scores, "people", OVERALL).value == pytest.approx(np.mean(pooled))

    def test_the_papers_rows_are_marked_as_published(self, scores):
        published = [row for row in scores.rows if row.observer.startswith(PREFIX)]
        assert all("published" in row.flags and row.low is None and "Table" in row.note for row in published)
        assert value(scores, f"{PREFIX}{BEST_PERSON}", OVERALL).value == 0.552
        assert value(scores, f"{PREFIX}GPT-4o", group_of("stickers", "*")).value == 0.365
        assert not any(row.observer.startswith(PREFIX) for row in scores.rows if "published" not in row.flags)

    def test_spread_and_order_of_models(self, scores):
        means = [[value(scores, model, set_mean(name)).value for model in MODELS] for name in ("laion-c", "imagenet-c")]
        deviations = {
            row.group[0][1]: row
            for row in scores.rows
            if row.statistic == "sd" and row.group == set_mean(row.group[0][1])
        }
        for name, of_set in zip(("laion-c", "imagenet-c"), means, strict=True):
            assert deviations[name].value == pytest.approx(np.std(of_set, ddof=1))
            assert deviations[name].low < deviations[name].value < deviations[name].high
        (tau,) = [
            r
            for r in scores.rows
            if (r.measure, r.against, r.group) == ("kendall_correlation", "imagenet-c", ALL_TRIALS)
        ]
        assert tau.value == pytest.approx(stats.kendalltau(*means).statistic)
        assert tau.n == len(MODELS)
        filtered = [r for r in scores.rows if r.measure == "kendall_correlation" and len(r.group) > 1]
        good = [index for index, accuracy in enumerate(means[1]) if accuracy >= 0.6]
        assert len(good) == 3
        (row,) = filtered
        assert row.n == 3
        assert row.value == pytest.approx(stats.kendalltau(*np.array(means)[:, good]).statistic)

    def test_error_consistency_with_a_pooled_list_is_the_measure_itself(self, scores, models):
        answers = trials_of(PEOPLE, shown=saw)
        assert not answers.select("stimulus").is_duplicated().any()  # one answer per image
        right = pl.col("truth") == pl.col("response")
        people = answers.select("stimulus", "condition", person=right)
        for model in MODELS:
            both = people.join(
                models.filter(pl.col("observer") == model).select("stimulus", model=right), on="stimulus"
            )
            direct = error_consistency(both["model"].to_numpy(), both["person"].to_numpy())
            row = value(scores, model, ALL_TRIALS, "error_consistency", against="people")
            assert row.value == pytest.approx(direct.value)
            assert row.n == direct.n == PHOTOS * 5 * 6
            assert row.low < row.value < row.high
            ends = reachable_kappa(both["model"].mean(), both["person"].mean())
            for statistic, end in zip(("lowest_reachable", "highest_reachable"), ends, strict=True):
                found = value(scores, model, ALL_TRIALS, "error_consistency", against="people", statistic=statistic)
                assert found.value == pytest.approx(end)
            part = both.filter(pl.col("condition") == "mosaic")
            by_condition = value(scores, model, group_of("mosaic", "")[:2], "error_consistency", against="people")
            assert by_condition.value == pytest.approx(error_consistency(part["model"], part["person"]).value)

    def test_a_ceiling_needs_shared_images(self, scores, models):
        statistic = {"measure": "error_consistency", "against": "people", "statistic": "ceiling_leave_one_out"}
        none = value(scores, "people", ALL_TRIALS, **statistic)
        assert none.value is None
        assert "every image was seen by one person" in none.note
        shared = trials_of(PEOPLE, shown=lambda o, c, level, photo: saw(o, c, level, photo) or photo < 6)
        found = cosight.score(models, humans=shared, on="laion-c", labels="laion-c-16", resamples=5, progress=False)
        row = value(found, "people", ALL_TRIALS, **statistic)
        assert row.value is not None
        assert "images that several people saw" in row.note

    def test_names_and_levels_are_enough_to_join_people(self, models, scores):
        found = cosight.score(
            models, humans=trials_of(PEOPLE, shown=saw, names=True), on="laion-c", labels="laion-c-16", resamples=5,
            progress=False,
        )  # fmt: skip
        for model in MODELS:
            one, other = (value(s, model, ALL_TRIALS, "error_consistency", against="people") for s in (found, scores))
            assert (one.value, one.n) == (other.value, other.n)

    def test_simulated_people_are_called_simulated(self, models):
        people = trials_of(PEOPLE, shown=saw).with_columns(
            pl.col("observer").str.replace("human", "simulated"), kind=pl.lit("simulated")
        )
        found = cosight.score(models, humans=people, on="laion-c", labels="laion-c-16", resamples=5, progress=False)
        for row in found.rows:
            if row.observer in (BEST, "simulated people") or row.against == "simulated people":
                assert "simulated" in row.flags
        assert value(found, "model:a", ALL_TRIALS, "error_consistency", against="simulated people").value is not None
        names = [line.model for line in laion_c_table(found).lines if line.section == "people"]
        assert names == [f"{BEST} (simulated)", "simulated people"]
        remarks = [text for text, _ in benchmarks["laion-c"].table.remarks(found)]
        assert any(text.startswith("error consistency of simulated people with each other") for text in remarks)

    def test_missing_distortions_and_levels_are_said(self, models, scores):
        def warnings(found):
            return [text for text, _ in benchmarks["laion-c"].table.remarks(found) if text.startswith("no trials of")]

        assert not warnings(scores)
        options = {"on": "laion-c", "labels": "laion-c-16", "resamples": 5, "progress": False}
        some = models.filter(pl.col("condition").is_in(["mosaic", "glitched"]) & pl.col("level").is_in([1, 2, 3]))
        found = cosight.score(some, **options)
        missing = "vertical_lines, luminance_checkerboard, geometric_shapes, stickers"
        (text,) = warnings(found)
        assert text.startswith(f"no trials of distortions {missing} and levels 4, 5: means are over the others")

    def test_sets_in_other_label_spaces_stand_beside_it(self, models, tmp_path):
        write(make_trials(models, space=SPACE), tmp_path / "laion.parquet")
        sketches = trials_of(MODELS, "sketch", ("all",))
        other = label_spaces["model-vs-human-16"]
        names = dict(zip(CLASSES, other.classes, strict=False))
        renamed = sketches.with_columns(pl.col("truth", "response").replace(names))
        write(make_trials(renamed, space=other), tmp_path / "sketch.parquet")
        found = cosight.score(
            tmp_path / "laion.parquet", tmp_path / "sketch.parquet", on="laion-c", resamples=5, progress=False
        )
        name = "sketch (model-vs-human-16)"
        right = sketches.filter(pl.col("observer") == "model:a").select((pl.col("truth") == pl.col("response")).mean())
        assert value(found, "model:a", set_mean(name)).value == pytest.approx(right.item())
        assert any(row.against == name for row in found.rows if row.measure == "kendall_correlation")
        assert name in [column.title for column in laion_c_table(found).columns]

    def test_a_model_with_fewer_stimuli_is_not_ranked(self, models):
        easy = (pl.col("observer") != "model:d") | (pl.col("level") < 3)
        found = cosight.score(models.filter(easy), on="laion-c", labels="laion-c-16", resamples=5, progress=False)
        assert "partial" in value(found, "model:d", OVERALL).flags
        ranked = {row.observer for row in found.rows if row.statistic == "rank"}
        assert ranked == set(MODELS[:3])
        line = next(line for line in laion_c_table(found).lines if line.observer == "model:d")
        assert all(cell.rank is None for cell in line.cells)
        notices = benchmarks["laion-c"].table.remarks(found)
        assert ("on fewer images than the others, so neither ranked nor marked: model:d", None) in notices

    def test_people_on_other_sets_alone_are_no_reference(self, models):
        people = trials_of(PEOPLE, "imagenet-c", ("fog",))
        both = pl.concat([models, trials_of(MODELS, "imagenet-c", ("fog",))])
        found = cosight.score(both, humans=people, on="laion-c", labels="laion-c-16", resamples=5, progress=False)
        assert not any(row.observer == BEST or row.measure == "error_consistency" for row in found.rows)

    def test_the_table_has_models_people_and_published_lines(self, scores):
        table = laion_c_table(scores)
        assert table.against == "people"
        titles = [column.title for column in table.columns]
        assert titles == [
            *("ImageNet", "clean", "LAION-C", "mosaic", "vertical lines", "glitched", "luminance", "shapes"),
            *("stickers", "imagenet-c", "EC"),
        ]
        sections = [line.section for line in table.lines]
        assert sections == ["models"] * 4 + ["people"] * 2 + ["published"] * 20
        own = [line.cells[2].value for line in table.lines[:4]]
        assert own == sorted(own, reverse=True)
        assert [line.cells[2].rank for line in table.lines[:4]] == [1, 2, None, None]
        assert all(cell.rank is None for line in table.lines[4:] for cell in line.cells)

    def test_the_command_prints_it(self, models, tmp_path, cosight):
        write(make_trials(models, space=SPACE), tmp_path / "trials.parquet")
        done = cosight("score", tmp_path / "trials.parquet", "--on", "laion-c", "--resamples", 5)
        assert done.code == 0, done.err
        assert "published (Li et al. 2025, Table 10)" in done.out
        assert "standard deviation across 4 models, laion-c" in done.out
        assert "function" not in done.out.splitlines()[0]
        assert "over seeds" not in done.out

    def test_without_its_trials_it_is_refused(self, models):
        with pytest.raises(InvalidInput, match=r"the table needs trials of the experiment laion-c .* got other"):
            cosight.score(models.with_columns(experiment=pl.lit("other")), on="laion-c", labels="laion-c-16")


def test_published_numbers_agree_with_each_other():
    """The LAION-C column of Table 10 is the mean of its six; Table 9 agrees with it where the paper does."""
    for name, (_, overall, *by_distortion) in TABLE_10.items():
        assert overall == pytest.approx(np.mean(by_distortion), abs=0.11), name
    assert set(TABLE_10) >= {BEST_PERSON, AVERAGE_PERSON}
    before = dict(zip(DISTORTIONS, TABLE_10["ViT-H-P14-336-CLIP-LAION-IN12K"][2:], strict=True))
    differing = {name for name, (own, _) in FINE_TUNED.items() if np.mean(own) != pytest.approx(before[name], abs=0.3)}
    assert differing == {"geometric_shapes", "stickers"}  # Table 9 has other values there


def test_the_published_set_is_got_from_a_mirror(tmp_path):
    place = tmp_path / "mirror" / "laion-c" / "mosaic" / "intensity_level_1" / "cat"
    place.mkdir(parents=True)
    (place / "one.JPEG").write_bytes(encode(np.zeros((32, 32, 3), np.uint8), "jpeg"))
    fetched = get("laion-c", out=tmp_path / "data", mirror=tmp_path / "mirror")
    assert (fetched.files, fetched.verified) == (1, False)
    assert "no checksum of laion-c is known" in fetched.notices
    assert read_set(fetched.folder).frame["level"].to_list() == [1]
    assert data_sets["laion-c"].page == "https://zenodo.org/records/14051887"
    assert data_sets["laion-c"].record == "https://zenodo.org/api/records/14051887"


@pytest.mark.slow
def test_the_builder_resumes_and_is_deterministic(by_id, tmp_path, cosight):
    """All 16 superclasses by the command: two processes, an interrupted and a complete build have the same bytes."""
    done = cosight("build", "laion-c", by_id, tmp_path / "one", "--per-class", 1, "--workers", 1)
    assert done.code == 0, done.err
    assert "496 stimuli made" in done.out
    frame = read_set(tmp_path / "one").frame
    lost = [tmp_path / "one" / file for file in frame["file"][100:110]]
    before = [path.read_bytes() for path in lost]
    for path in lost:
        path.unlink()
    again = cosight("build", "laion-c", by_id, tmp_path / "one", "--per-class", 1, "--workers", 2)
    assert "10 stimuli made, 486 existed" in again.out
    assert [path.read_bytes() for path in lost] == before
    assert_frame_equal(read_set(tmp_path / "one").frame, frame)
    refused = cosight("build", "laion-c", by_id, tmp_path / "one", "--per-class", 1, "--seed", 1, "--workers", 1)
    assert (refused.code, "was made with seed 0" in refused.err) == (2, True)


# ---- figures

FIGURES = [name for name in figures if name.startswith("laion-c-")]


class TestFigures:
    @pytest.mark.parametrize("name", FIGURES)
    def test_every_figure_is_drawn(self, name, scores, tmp_path):
        assert figure(name, scores, out=tmp_path / "figure.svg").read_text().startswith("<?xml")

    @pytest.mark.parametrize("name", FIGURES)
    def test_other_scores_are_refused(self, name, tmp_path):
        other = cosight.score("sample:edges", measure="accuracy", resamples=5, progress=False)
        with pytest.raises(InvalidInput, match="these scores are not LAION-C's; make them with `cosight score"):
            figure(name, other, out=tmp_path / "figure.svg")

    def test_curves_are_where_the_rows_say(self, scores):
        from matplotlib.figure import Figure

        canvas = Figure()
        figures["curves"].draw(canvas, FigureRequest(scores.rows))
        panels = {axes.get_title(): axes for axes in canvas.axes}
        for condition in DISTORTIONS:
            axes = panels[f"laion-c: {condition.replace('_', ' ')}"]
            lines = {line.get_label(): line.get_ydata() for line in axes.lines}
            for name, label in (*((model, model) for model in MODELS), ("people", "people, mean"), (BEST, BEST)):
                rows = [value(scores, name, group_of(condition, level)) for level in range(1, 6)]
                assert list(lines[label]) == [row.value for row in rows]
            markers = {line.get_marker() for line in axes.lines if line.get_label() in MODELS}
            assert len(markers) == len(MODELS)  # models differ in grey too

    def test_what_is_missing_is_said(self, models, tmp_path):
        alone = cosight.score(models, on="laion-c", labels="laion-c-16", resamples=5, progress=False)
        with pytest.raises(InvalidInput, match="no other set than LAION-C; add a run"):
            figure("laion-c-scatter", alone, out=tmp_path / "figure.svg")
        with pytest.raises(InvalidInput, match="no error consistency with people; score with --humans"):
            figure("laion-c-consistency", alone, out=tmp_path / "figure.svg")
        assert not list(tmp_path.iterdir())
