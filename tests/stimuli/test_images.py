"""Images as arrays and as files, above all damaged and unusual files."""

from __future__ import annotations

import contextlib
import hashlib
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image as Pillow

from cosight.errors import InvalidInput
from cosight.stimuli.images import (
    MIN_SIDE,
    as_bytes,
    as_floats,
    check_image,
    decode,
    digest,
    encode,
    read_image,
    restore_dtype,
)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def saved(picture, kind="PNG", **options):
    """The bytes of a Pillow picture or an array in a file format."""
    file = io.BytesIO()
    (Pillow.fromarray(picture) if isinstance(picture, np.ndarray) else picture).save(file, kind, **options)
    return file.getvalue()


def deep_png(colour_type, channels):
    """A PNG with 16 bits per channel, written by hand: Pillow writes none in colour."""

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    row = b"\0" + bytes(2 * channels * 40)
    head = struct.pack(">IIBBBBB", 40, 40, 16, colour_type, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(row * 40)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


# --- files that are read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP"])
@pytest.mark.parametrize("shape", [(40, 50), (40, 50, 3), (1, 1), (1, 1, 3)])
def test_formats_without_loss_give_their_pixels(kind, shape):
    image = noise(*shape)
    result = decode(saved(image, kind, **({"lossless": True} if kind == "WEBP" else {})))
    if kind == "WEBP" and len(shape) == 2:  # which has no grey
        result = result[:, :, 1].copy()
    assert np.array_equal(result, image)
    assert result.dtype == np.uint8
    assert result.flags.c_contiguous
    assert result.flags.writeable


def test_jpeg_and_gif_are_read(squares):
    assert np.abs(decode(saved(squares[0], "JPEG", quality=95)).astype(int) - squares[0]).mean() < 3
    assert decode(saved(squares[0], "GIF")).shape == (224, 224, 3)


def test_one_bit_is_black_and_white():
    bits = noise(40, 40) > 127
    for kind in ("PNG", "TIFF", "PPM"):
        assert np.array_equal(decode(saved(Pillow.fromarray(bits), kind)), bits * np.uint8(255))


def test_a_palette_is_looked_up():
    picture = Pillow.fromarray(noise(40, 40) % 3).copy()
    picture.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    expected = np.array([[10, 20, 30], [40, 50, 60], [70, 80, 90]], np.uint8)[noise(40, 40) % 3]
    assert np.array_equal(decode(saved(picture)), expected)


@pytest.mark.parametrize(
    ("orientation", "upright"),
    [
        (1, lambda x: x),
        (2, lambda x: x[:, ::-1]),
        (3, lambda x: x[::-1, ::-1]),
        (4, lambda x: x[::-1]),
        (5, lambda x: x.swapaxes(0, 1)),
        (6, lambda x: np.rot90(x, -1)),
        (7, lambda x: np.rot90(x, 2).swapaxes(0, 1)),
        (8, lambda x: np.rot90(x, 1)),
    ],
)  # Exif 2.3, tag 0x0112
def test_exif_orientation_is_followed(orientation, upright):
    image = noise(40, 50, 3)
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    assert np.array_equal(decode(saved(image, exif=exif)), upright(image))


@pytest.mark.parametrize(("mode", "shape"), [("RGBA", (40, 40, 4)), ("LA", (40, 40, 2))])
def test_an_opaque_alpha_channel_is_dropped(mode, shape):
    image = noise(*shape)
    image[..., -1] = 255
    assert np.array_equal(decode(saved(image)), image[..., :-1].squeeze())


def test_a_transparent_colour_that_is_not_in_the_picture_is_no_matter():
    image = np.maximum(noise(40, 40, 3), 1)
    assert np.array_equal(decode(saved(image, transparency=(0, 0, 0))), image)
    assert np.array_equal(decode(saved(image[:, :, 0], transparency=0)), image[:, :, 0])
    picture = Pillow.fromarray(image[:, :, 0] % 3 + 1).copy()
    picture.putpalette([9, 9, 9, 40, 50, 60, 70, 80, 90, 1, 2, 3])
    assert decode(saved(picture, transparency=0)).shape == (40, 40, 3)


def test_files_are_read_by_content_not_by_ending(tmp_path):
    image = noise(40, 40, 3)
    (tmp_path / "photo.jpg").write_bytes(saved(image, "PNG"))
    assert np.array_equal(read_image(tmp_path / "photo.jpg"), image)


# --- files that are refused -------------------------------------------------------------------------------------------


def frames(kind):
    first, second = (Pillow.fromarray(noise(40, 40, seed=seed)) for seed in (0, 1))
    return saved(first, kind, save_all=True, append_images=[second])


def see_through(mode):
    image = noise(40, 40, {"RGBA": 4, "LA": 2}[mode])
    image[..., -1] = 255
    image[3, 4, -1] = 254
    return saved(image)


REFUSED = {
    "empty": (lambda: b"", "cannot decode .*: not an image;"),
    "text": (lambda: b"I am a picture, trust me.\n" * 9, "cannot decode .*: not an image;"),
    "only a beginning": (lambda: b"\x89PNG\r\n\x1a\n", "cannot decode .*: not an image;"),
    "EPS": (lambda: saved(noise(40, 40, 3), "EPS"), "cannot decode .*: not an image;"),
    "truncated JPEG": (lambda: saved(noise(64, 64, 3), "JPEG")[:-700], "cannot decode .*: image file is truncated"),
    "truncated PNG": (lambda: saved(noise(64, 64, 3))[:-700], "cannot decode"),
    "truncated GIF": (lambda: saved(noise(64, 64), "GIF")[:-700], "cannot decode"),
    "truncated WebP": (lambda: saved(noise(64, 64, 3), "WEBP")[:-700], "cannot decode"),
    "damaged PNG": (lambda: saved(noise(64, 64, 3))[:5000] + saved(noise(64, 64, 3, seed=1))[5000:], "cannot decode"),
    "16-bit grey PNG": (lambda: saved(noise(40, 40).astype(np.uint16) * 257), "8 bits per channel, .* convert it to 8"),
    "16-bit RGB PNG": (lambda: deep_png(2, 3), "8 bits per channel, .* convert it to 8"),
    "16-bit RGBA PNG": (lambda: deep_png(6, 4), "8 bits per channel, .* convert it to 8"),
    "16-bit grey and alpha PNG": (lambda: deep_png(4, 2), "8 bits per channel, .* convert it to 8"),
    "16-bit PPM": (lambda: b"P6 40 40 65535\n" + bytes(40 * 40 * 6), "8 bits per channel, .* convert it to 8"),
    "12-bit PGM": (lambda: b"P5 40 40 4095\n" + bytes(40 * 40 * 2), "8 bits per channel, .* convert it to 8"),
    "32-bit float TIFF": (lambda: saved(np.zeros((40, 40), np.float32), "TIFF"), "8 bits per channel"),
    "CMYK JPEG": (lambda: saved(Pillow.new("CMYK", (40, 40)), "JPEG"), "is CMYK; save it as RGB first"),
    "LAB TIFF": (lambda: saved(Pillow.new("LAB", (40, 40)), "TIFF"), "is LAB; save it as RGB first"),
    "animated GIF": (lambda: frames("GIF"), "has 2 frames; save one of them"),
    "animated PNG": (lambda: frames("PNG"), "has 2 frames"),
    "animated WebP": (lambda: frames("WEBP"), "has 2 frames"),
    "pages of a TIFF": (lambda: frames("TIFF"), "has 2 frames"),
    "RGBA": (lambda: see_through("RGBA"), "transparent pixels; flatten it"),
    "grey and alpha": (lambda: see_through("LA"), "transparent pixels; flatten it"),
    "transparent colour": (
        lambda: saved(np.zeros((40, 40, 3), np.uint8), transparency=(0, 0, 0)),
        "transparent pixels",
    ),
    "transparent grey": (lambda: saved(np.zeros((40, 40), np.uint8), transparency=0), "transparent pixels"),
    "palette with a transparent colour": (
        lambda: saved(Pillow.fromarray(noise(40, 40)).convert("P"), transparency=7),
        "transparent pixels",
    ),
    "palette with alphas": (
        lambda: saved(Pillow.fromarray(noise(40, 40)).convert("P"), transparency=bytes([128] * 256)),
        "transparent pixels",
    ),
    "GIF with a transparent colour": (
        lambda: saved(Pillow.fromarray(noise(40, 40)).convert("P"), "GIF", transparency=7),
        "transparent pixels",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_files_that_are_refused_by_name_in_one_line(tmp_path, what):
    make, reason = REFUSED[what]
    path = tmp_path / "odd.png"
    path.write_bytes(make())
    with pytest.raises(InvalidInput, match=reason) as refusal:
        read_image(path)
    assert "odd.png" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "; " in str(refusal.value)  # the way out


@pytest.mark.parametrize("share", [1.0, 1.5, 3.0])
def test_a_decompression_bomb_is_refused_above_the_limit(monkeypatch, share):
    monkeypatch.setattr(Pillow, "MAX_IMAGE_PIXELS", 1600)
    bomb = saved(np.zeros((40, int(40 * share)), np.uint8))
    if share == 1:
        assert decode(bomb).shape == (40, 40)
    else:
        with pytest.raises(InvalidInput, match="images have at most 1600 pixels, bomb has more; scale it down first"):
            decode(bomb, name="bomb")


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "none.png")


@given(st.data())
def test_broken_bytes_give_an_image_or_a_refusal(data):
    kind = data.draw(st.sampled_from(["PNG", "GIF", "BMP", "WEBP", "PPM", "JPEG"]))
    good = bytearray(saved(noise(40, 40, 3), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        good[data.draw(st.integers(0, min(len(good), 300) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(good)))
    with contextlib.suppress(InvalidInput):
        assert decode(bytes(good[:end])).dtype == np.uint8


# --- identity ---------------------------------------------------------------------------------------------------------


def test_digest_is_that_of_size_and_pixels():
    image = noise(40, 50, 3)
    assert digest(image) == hashlib.sha256(b"40x50x3\n" + image.tobytes()).hexdigest()  # our stated format
    assert digest(np.asfortranarray(image)) == digest(image[:, ::-1][:, ::-1]) == digest(image)


def test_digest_knows_size_channels_and_every_pixel():
    image = noise(40, 50)
    other = image.copy()
    other[-1, -1] ^= 1
    rgb = np.repeat(image[:, :, None], 3, axis=2)
    assert len({digest(each) for each in (image, image.reshape(50, 40), other, rgb)}) == 4
    assert digest(image[:, :, None]) == digest(image)


def test_digest_of_floats_is_refused():
    with pytest.raises(InvalidInput, match="defined for 8-bit pixels, got float64"):
        digest(np.zeros((40, 40)))


# --- encoding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(32, 32), (33, 97), (33, 97, 3), (1, 1), (1, 1, 3), (33, 97, 1)])
def test_png_keeps_every_pixel(shape):
    image = noise(*shape)
    assert np.array_equal(decode(encode(image, "png")), image.reshape(shape[:2] if shape[-1] == 1 else shape))


def test_png_is_the_same_bytes_for_a_view():
    image = noise(64, 64, 3)
    assert encode(image[:, ::-1], "png") == encode(image[:, ::-1].copy(), "png")


def test_jpeg_is_close_and_has_full_colour_resolution(squares):
    data = encode(squares[0], "jpeg")
    assert np.abs(decode(data).astype(int) - squares[0]).max() <= 5  # as many as quality 100 rounds
    with Pillow.open(io.BytesIO(data)) as picture:
        assert picture.layer[1][1:3] == picture.layer[0][1:3] == (1, 1)  # no chroma subsampling
    assert decode(encode(squares[0][:, :, 0], "jpeg")).shape == (224, 224)


def test_what_cannot_be_encoded():
    with pytest.raises(InvalidInput, match="a file has 8-bit pixels, got float64"):
        encode(np.zeros((40, 40)), "png")
    with pytest.raises(InvalidInput, match="format must be png or jpeg, got gif"):
        encode(noise(40, 40), "gif")


# --- arrays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "rule"),
    [
        (noise(40), r"an image is \(height, width, 3\) or \(height, width\), got shape \(40,\)"),
        (noise(40, 40, 4), r"got shape \(40, 40, 4\)"),
        (noise(2, 40, 40, 3), r"got shape \(2, 40, 40, 3\)"),
        (noise(1, 1, 3), "at least 32 x 32 pixels, got 1 x 1"),
        (noise(31, 40), "at least 32 x 32 pixels, got 40 x 31"),
        (noise(0, 40), "at least 32 x 32 pixels, got 40 x 0"),
        (noise(40, 40).astype(np.int64), "uint8 or floating point, got int64"),
        (noise(40, 40).astype(bool), "uint8 or floating point, got bool"),
        (noise(40, 40).astype(np.complex64), "uint8 or floating point, got complex64"),
        (noise(40, 40) / 254, r"must lie in \[0, 1\], got 0 to 1.00394"),
        (np.full((40, 40), -0.1), r"must lie in \[0, 1\], got -0.1 to -0.1"),
        (np.where(np.eye(40), np.nan, 0.5), r"must lie in \[0, 1\], got nan"),
        (np.full((40, 40), np.inf), r"must lie in \[0, 1\], got inf"),
    ],
)
def test_arrays_that_are_no_image(image, rule):
    with pytest.raises(InvalidInput, match=rule):
        check_image(image)


@pytest.mark.parametrize("shape", [(MIN_SIDE, MIN_SIDE), (33, 97, 3), (97, 33, 1)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_arrays_that_are_images(shape, dtype):
    image = np.ones(shape, dtype)
    assert check_image(image) is image


IMAGES = arrays.arrays(
    np.uint8, st.sampled_from([(4, 5), (4, 5, 3), (4, 5, 1)]), elements=st.integers(0, 255)
)  # any size: these functions leave size to `checked`


@given(IMAGES, st.sampled_from([np.float16, np.float32, np.float64]))
def test_bytes_survive_floats(image, dtype):
    flat = image[:, :, 0] if image.shape[-1] == 1 and image.ndim == 3 else image
    floats = as_floats(image)
    assert floats.dtype == np.float32
    assert 0 <= floats.min() <= floats.max() <= 1
    assert np.array_equal(as_bytes(floats), flat)
    assert np.array_equal(as_bytes((image / 255).astype(dtype)), flat)
    assert np.array_equal(restore_dtype(floats, image), image)
    assert np.array_equal(restore_dtype(flat, image), image)


@given(IMAGES, st.sampled_from([np.float16, np.float32, np.float64]))
def test_restored_takes_dtype_and_axes_of_the_input(image, dtype):
    like = (image / 255).astype(dtype)
    for result in (as_floats(image), as_bytes(image)):
        back = restore_dtype(result, like)
        assert back.shape == like.shape
        assert back.dtype == dtype
        assert np.abs(back.astype(float) - image / 255).max() < 1e-3


def test_values_are_rounded_to_the_nearest_byte_in_every_channel():
    """All bytes and what lies just below and above the halves between them."""
    halves = (np.arange(255) + 0.5) / 255
    values = np.concatenate([np.arange(256) / 255, halves - 1e-5, halves + 1e-5])
    expected = np.concatenate([np.arange(256), np.arange(255), np.arange(1, 256)])
    image = np.stack([values, values[::-1], np.roll(values, 7)], axis=1)[None]
    assert np.array_equal(as_bytes(image)[0, :, 0], expected)
    assert np.array_equal(as_bytes(image)[0, :, 1], expected[::-1])
    assert np.array_equal(as_bytes(image)[0, :, 2], np.roll(expected, 7))


def test_results_beyond_the_range_are_clipped():
    wild = np.array([[-0.5, 0.25, 1.5]], np.float32)
    assert restore_dtype(wild, np.zeros((1, 3), np.uint8)).tolist() == [[0, 64, 255]]
    assert restore_dtype(wild, np.zeros((1, 3))).tolist() == [[0, 0.25, 1]]


@pytest.mark.parametrize("convert", [as_floats, as_bytes])
@pytest.mark.parametrize("scale", [1, 255])
def test_conversions_give_contiguous_copies(convert, scale):
    image = noise(40, 50, 3) if scale == 1 else noise(40, 50, 3).astype(np.float32) / 255
    for view in (image, image.swapaxes(0, 1), image[::-1, ::2], image[:, :, :1]):
        before = view.copy()
        result = convert(view)
        assert result.flags.c_contiguous
        result[...] = 0
        assert np.array_equal(view, before)
