"""What is sent of an image has its pixels and nothing else."""

from __future__ import annotations

import io
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from PIL import PngImagePlugin

from cosight.errors import InvalidInput
from cosight.humans.web.served_images import ServedImages, strip_metadata
from cosight.stimuli.images import decode

from .conftest import draw_image

SECRET = b"tiger-secret"


def saved(pixels, kind, **options):
    out = io.BytesIO()
    Pillow.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def exif(**tags):
    made = Pillow.Exif()
    made[0x010E] = SECRET.decode()  # ImageDescription
    for tag, value in tags.items():
        made[int(tag.removeprefix("tag"))] = value
    return made


def png_with_text():
    texts = PngImagePlugin.PngInfo()
    texts.add_text("truth", SECRET.decode())
    texts.add_itxt("condition", SECRET.decode())
    return saved(draw_image(1), "PNG", pnginfo=texts, icc_profile=SECRET * 3, dpi=(72, 72)) + SECRET


def jpeg(**options):
    more = {"comment": SECRET, "exif": exif(), "icc_profile": SECRET * 3, **options}
    return saved(draw_image(1, (40, 64)), "JPEG", quality=90, **more) + SECRET


CASES = {
    "png": png_with_text(),
    "grey png": saved(draw_image(1)[:, :, 0], "PNG"),
    "palette png": saved(np.arange(64, dtype=np.uint8).reshape(8, 8).repeat(4, 0).repeat(4, 1), "PNG", bits=8),
    "jpeg": jpeg(),
    "progressive jpeg": jpeg(progressive=True),
    "jpeg with restart markers": jpeg(restart_marker_rows=1),
    "jpeg in RGB": saved(draw_image(1), "JPEG", quality=95, keep_rgb=True),  # Adobe's segment says that it is
    "grey jpeg": saved(draw_image(1)[:, :, 0], "JPEG"),
    "webp": saved(draw_image(1), "WEBP", lossless=True, exif=exif()),
    "gif": saved(draw_image(1)[:, :, 0], "GIF", comment=SECRET),
    "bmp": saved(draw_image(1), "BMP"),
    "tiff": saved(draw_image(1), "TIFF", description=SECRET.decode()),
}


@pytest.mark.parametrize("name", CASES)
def test_pixels_stay_and_everything_else_goes(name):
    sent = strip_metadata(CASES[name])
    assert np.array_equal(decode(sent.data), decode(CASES[name]))
    assert SECRET not in sent.data
    with Pillow.open(io.BytesIO(sent.data)) as picture:
        assert picture.get_format_mimetype() == sent.media_type
        assert not dict(picture.getexif())
        assert not {"icc_profile", "comment", "truth", "condition", "exif"} & picture.info.keys()
    assert sent.media_type == ("image/jpeg" if "jpeg" in name else "image/png")


@pytest.mark.parametrize("name", ["png", "jpeg", "progressive jpeg", "jpeg in RGB"])
def test_compressed_pixels_are_sent_as_they_are(name):
    """No decoding and encoding again: what is sent is a part of what there was, and stays what it is."""
    sent = strip_metadata(CASES[name]).data
    assert len(sent) <= len(CASES[name])
    assert strip_metadata(sent).data == sent
    assert sent[-150:] in CASES[name]


def test_a_camera_held_sideways_is_turned_as_models_see_it():
    turned = jpeg(exif=exif(tag274=6))
    sent = strip_metadata(turned)
    assert sent.media_type == "image/png"
    assert decode(sent.data).shape == (64, 40, 3)
    assert np.array_equal(decode(sent.data), decode(turned))
    assert SECRET not in sent.data


def test_opaque_alpha_is_dropped_and_transparency_refused():
    opaque = np.dstack([draw_image(1), np.full((32, 40), 255, np.uint8)])
    assert np.array_equal(decode(strip_metadata(saved(opaque, "PNG")).data), draw_image(1))
    with pytest.raises(InvalidInput, match=r"there\.png has transparent pixels"):
        strip_metadata(saved(draw_image(1)[:, :, 0], "PNG", transparency=int(draw_image(1)[0, 0, 0])), name="there.png")


@pytest.mark.parametrize("data", [b"", b"nonsense", CASES["png"][:60], CASES["jpeg"][:200]], ids=len)
def test_broken_images_are_named(data):
    with pytest.raises(InvalidInput, match=r"there\.png"):
        strip_metadata(data, name="there.png")


@given(st.sampled_from(["png", "jpeg", "progressive jpeg"]), st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_any_damage_is_refused_or_sent(name, place, noise):
    """Never another error, and never the metadata: a damaged file cannot hide it in the pixels by being damaged."""
    whole = CASES[name]
    damaged = whole[:place] + noise + whole[place + len(noise) :]
    try:
        sent = strip_metadata(damaged)
    except InvalidInput:
        return
    assert sent.media_type in ("image/png", "image/jpeg")


def test_chunks_keep_their_checksums():
    data, at = strip_metadata(CASES["png"]).data, 8
    kinds = []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        kinds.append(data[at + 4 : at + 8])
        assert zlib.crc32(data[at + 4 : at + 8 + size]) == int.from_bytes(data[at + 8 + size : at + 12 + size], "big")
        at += 12 + size
    assert set(kinds) == {b"IHDR", b"IDAT", b"IEND"}


def test_memory_is_bounded_and_the_last_used_stay(tmp_path):
    files = {}
    for name in "abcd":
        files[name] = tmp_path / f"{name}.png"
        files[name].write_bytes(saved(draw_image(ord(name)), "PNG"))
    size = max(len(strip_metadata(file.read_bytes()).data) for file in files.values())
    pictures = ServedImages(capacity=2 * size)
    for name in "abac":  # b is the one that was longest not asked for
        pictures.load(name, files[name])
    files["a"].unlink()
    files["b"].unlink()
    assert pictures.load("a", files["a"]).data
    with pytest.raises(InvalidInput, match=r"cannot read .*b\.png"):
        pictures.load("b", files["b"])
    assert ServedImages(capacity=10).load("d", files["d"]).data  # larger than all there is room for: sent, not kept
