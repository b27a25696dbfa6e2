"""Contact sheets: which pictures they show, and where."""

import numpy as np
import pytest

from cosight.errors import InvalidInput
from cosight.stimuli import Alterations, alteration, generate_set, read_set
from cosight.stimuli.contact_sheet import SheetRow, contact_sheet, sheet_rows, write_sheet
from cosight.stimuli.images import encode, read_image


def test_every_picture_is_on_the_sheet():
    colours = np.random.default_rng(0).integers(0, 200, (2, 3, 3), np.uint8)
    rows = [SheetRow(f"row{r}", [(str(c), np.full((40, 40, 3), colours[r, c])) for c in range(3)]) for r in range(2)]
    sheet = contact_sheet(rows, side=50)
    for colour in colours.reshape(-1, 3):
        assert (sheet == colour).all(axis=2).sum() >= 50 * 50
    assert (sheet[0] == 255).all()


def test_aspect_ratio_is_kept_and_grey_is_shown():
    sheet = contact_sheet([SheetRow("x", [("", np.full((40, 80), 30, np.uint8))])], side=60)
    dark = (sheet == 30).all(axis=2)
    assert dark.any(axis=1).sum() == 30
    assert dark.any(axis=0).sum() == 60


def test_nothing_to_show_is_refused():
    with pytest.raises(InvalidInput, match="at least one picture"):
        contact_sheet([SheetRow("x", [])])


@pytest.fixture
def stimuli(tmp_path, squares):
    for name, image in zip("ba", squares, strict=True):
        (tmp_path / "source").mkdir(exist_ok=True)
        (tmp_path / "source" / f"{name}.png").write_bytes(encode(image, "png"))
    hows = tuple(alteration(kind, severity=s) for kind in ("fog", "contrast") for s in (1, 10, 2))
    return generate_set(
        Alterations(read_set(tmp_path / "source"), hows, experiment="x"), tmp_path / "set", workers=1
    ).stimuli


def test_a_set_shows_one_source_at_every_step_in_order(stimuli):
    rows = sheet_rows(stimuli)
    assert [(row.name, [words for words, _ in row.pictures]) for row in rows] == [
        ("contrast", ["1", "2", "10"]),
        ("fog", ["1", "2", "10"]),
    ]
    np.testing.assert_array_equal(rows[0].pictures[2][1], stimuli.pixels("images/contrast/10/a.png"))


def test_a_source_that_is_there_twice_is_shown_once(tmp_path, squares):
    (tmp_path / "in").mkdir()
    for name in "ab":
        (tmp_path / "in" / f"{name}.png").write_bytes(encode(squares[0], "png"))
    hows = tuple(alteration("contrast", severity=s) for s in range(1, 11))
    result = generate_set(Alterations(read_set(tmp_path / "in"), hows, experiment="x"), tmp_path / "out", workers=1)
    [row] = sheet_rows(result.stimuli)
    assert [words for words, _ in row.pictures] == [str(s) for s in range(1, 11)]


def test_sheets_are_written_whole(stimuli, tmp_path):
    write_sheet(stimuli, tmp_path / "sheet.jpg")
    assert read_image(tmp_path / "sheet.jpg").shape[0] > 2 * 128
    with pytest.raises(InvalidInput, match=r"a \.png or \.jpg file, got"):
        write_sheet(stimuli, tmp_path / "sheet.txt")
