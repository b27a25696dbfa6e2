from __future__ import annotations

import polars as pl
import pytest

from cosight.trials.cues import CUE_CONFLICT, texture_codes

LABELS = ("bird", "car", "knife", "oven")


def codes(*images, experiment=CUE_CONFLICT):
    columns = pl.DataFrame(
        {"experiment": [experiment] * len(images), "image": pl.Series(list(images), dtype=pl.String)}
    )
    return texture_codes(columns, LABELS).tolist()


@pytest.mark.parametrize(
    ("image", "texture"),
    [
        ("knife3-bird12.png", 0),
        ("car10-oven1.jpg", 3),
        ("car1-car2.png", 1),  # no conflict, but a texture
        ("car1-tiger2.png", -1),  # not a class
        ("car1.png", -1),
        ("knife-bird.png", -1),
        ("n04111531_14126.png", -1),
        (None, -1),
    ],
)
def test_the_texture_is_in_the_name(image, texture):
    assert codes(image) == [texture]


def test_only_cue_conflict_images_have_a_texture():
    assert codes("knife3-bird12.png", experiment="stylized") == [-1]


def test_no_columns_no_codes():
    assert codes() == []


def test_published_names_all_tell_a_texture(mirror):
    from cosight.trials import align, read

    table = align(read(mirror / "model-vs-human" / "cue-conflict"))
    found = texture_codes(table.columns, table.labels)
    assert len(found) == 1280
    assert (found >= 0).all()
    assert (found != table.answers.truth).sum() == 1200  # 80 of them show one class twice: Geirhos et al. 2019
