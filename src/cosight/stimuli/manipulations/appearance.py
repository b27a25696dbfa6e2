"""Manipulations of spatial frequency, contrast, noise, orientation and colour."""

from __future__ import annotations

import cv2
import numpy as np

from cosight.errors import InvalidInput
from cosight.stimuli.images import Bytes, Floats
from cosight.stimuli.kinds import declare, settings_from
from cosight.stimuli.manipulations.conditions import CITATION, manipulations, restore_channels, to_grey

__all__ = ["colour", "contrast", "false_colour", "high_pass", "low_pass", "rotation", "uniform_noise"]

_SURROUND = np.float32(0.4423)  # what a filter sees beyond the border: mean grey of the experiments' images
_TRUNCATE = 4.0  # where the kernel ends, in standard deviations (scipy.ndimage's default)
_LOW_SD = (0.0, 1.0, 3.0, 5.0, 7.0, 10.0, 15.0, 40.0)  # pixels of a 224 x 224 image; not scaled with the size
_HIGH_SD = (None, 3.0, 1.5, 1.0, 0.7, 0.55, 0.45, 0.4)  # None: no filter, "inf" in the files
_CONTRASTS = (1.0, 0.5, 0.3, 0.15, 0.1, 0.05, 0.03, 0.01)  # the number in the condition's name is a percentage
_WIDTHS = (0.0, 0.03, 0.05, 0.1, 0.2, 0.35, 0.6, 0.9)
_CONTRAST_UNDER_NOISE = 0.3  # Geirhos et al. 2018: so that less of the noise is clipped
_DEGREES = (0, 90, 180, 270)

# False colour: numbers published with Geirhos et al. 2018 (rgeirhos/generalisation-humans-DNNs, code/;
# CC BY 4.0): the measured monitor of the experiment.
# Cone excitations (rows L, M, S) of the monitor's full red, green and blue; Stockman-Sharpe 2-degree fundamentals.
_CONES = np.array(
    [
        [0.1619982647, 0.208049264, 0.0389347448],
        [0.0330275785, 0.2496504557, 0.0618343518],
        [0.0015524055, 0.0198861001, 0.1890224274],
    ]
)
_BACKGROUND = np.array([0.20449114, 0.17225619, 0.10523047])  # cone excitations of half of each primary
# Luminance, L - M and S - luminance from cone differences to the background (Brainard 1996); grey has only the first.
_OPPONENTS = np.array(
    [
        [9.27590805, 9.27590805, 0],
        [7.86421647, -9.33587662, 0],
        [-3.39709047, -3.39709047, 12.16230246],
    ]
)
# Light of the monitor at grey value 0 .. 255, in 1e-7 of its maximum (x_gamma_function.npy).
# fmt: off
_MONITOR = 1e-7 * np.array([
    0, 60, 178, 285, 419, 641, 870, 1272, 1724, 2323, 2949, 3741, 4748, 5772, 7014, 8423, 10123, 12059, 14058, 16302,
    18832, 21564, 24584, 27856, 31471, 35396, 39556, 44092, 48892, 54213, 59774, 65709, 72203, 78103, 84356, 90828,
    97647, 104820, 112339, 120098, 128254, 136655, 145558, 154839, 164411, 174261, 184627, 195257, 207034, 218513,
    230307, 242607, 255277, 268348, 281872, 295689, 309990, 324816, 340004, 355629, 371556, 388053, 405157, 422295,
    441212, 458717, 476804, 495353, 514408, 533712, 553602, 573917, 594536, 615680, 637225, 659366, 682230, 705204,
    728723, 752555, 778643, 803693, 829119, 855159, 881648, 908564, 936108, 964178, 992427, 1021342, 1050687, 1080857,
    1111423, 1142545, 1173860, 1205920, 1239135, 1269183, 1300038, 1330907, 1362683, 1394590, 1427334, 1460222,
    1493249, 1526853, 1561350, 1596335, 1631991, 1667485, 1703843, 1740550, 1780214, 1817912, 1856071, 1894761,
    1933577, 1973449, 2013886, 2054391, 2094960, 2136505, 2178631, 2221148, 2264039, 2307113, 2350856, 2395014,
    2440940, 2482514, 2525151, 2567899, 2611676, 2655409, 2699733, 2744312, 2790106, 2835213, 2881203, 2927338,
    2974014, 3020488, 3067767, 3115183, 3166412, 3214459, 3262556, 3311987, 3361160, 3411090, 3460355, 3510951,
    3561861, 3612656, 3663472, 3715201, 3766330, 3817988, 3869287, 3922838, 3981627, 4037824, 4095677, 4152465,
    4209461, 4267382, 4325570, 4383345, 4442247, 4500772, 4560231, 4619134, 4677700, 4736301, 4796320, 4855951,
    4919447, 4979799, 5039844, 5100734, 5160190, 5221118, 5282354, 5344403, 5405632, 5467377, 5529083, 5591643,
    5652500, 5714672, 5777508, 5840478, 5904441, 5963807, 6023876, 6084379, 6146998, 6207388, 6269269, 6331127,
    6394689, 6456458, 6519698, 6582589, 6648164, 6711804, 6776998, 6842210, 6912075, 6979057, 7044568, 7113272,
    7181084, 7250171, 7317946, 7389602, 7459348, 7531009, 7601357, 7674710, 7747580, 7820715, 7893153, 7969278,
    8042208, 8113218, 8186377, 8257543, 8330229, 8403052, 8477443, 8550807, 8624373, 8696650, 8771796, 8847452,
    8919574, 8992152, 9064598, 9140721, 9207563, 9277896, 9344892, 9413072, 9476017, 9539208, 9599938, 9660157,
    9712322, 9765787, 9815593, 9862908, 9903670, 9943093, 9976525, 10000000,
])
# fmt: on
_INVERT_CONES = np.linalg.inv(_OPPONENTS) @ np.diag([1.0, -1.0, -1.0]) @ _OPPONENTS  # of cone differences
_CONES_TO_RGB = np.linalg.inv(_CONES)
_INVERT_COLOUR = np.column_stack(  # (3, 4): the affine map of linear RGB that inverts both chromatic axes
    [_CONES_TO_RGB @ _INVERT_CONES @ _CONES, _CONES_TO_RGB @ (_BACKGROUND - _INVERT_CONES @ _BACKGROUND)]
)
_THRESHOLDS = (_MONITOR[:-1] + _MONITOR[1:]) / 2  # light above which the next grey value is nearer


def _smooth(grey: Floats, sd: float) -> Floats:
    """Apply a Gaussian filter to an image in front of the surround."""
    side = 2 * int(_TRUNCATE * sd + 0.5) + 1
    above = grey - _SURROUND  # OpenCV's constant border is zero: make the surround zero
    if side > 1:
        above = cv2.GaussianBlur(above, (side, side), sd, borderType=cv2.BORDER_CONSTANT)  # type: ignore[assignment]
    return above + _SURROUND


@declare(
    manipulations,
    "low-pass",
    steps=("0", "1", "3", "5", "7", "10", "15", "40"),
    settings=settings_from("sd", _LOW_SD),
    citation=CITATION,
    random=False,
)
def low_pass(image: Floats, step: int, _rng: None) -> Floats:
    """Grey, filtered by a Gaussian with this standard deviation in pixels."""
    return restore_channels(_smooth(to_grey(image), _LOW_SD[step]), image)


@declare(
    manipulations,
    "high-pass",
    steps=("inf", "3", "1.5", "1", "0.7", "0.55", "0.45", "0.4"),
    settings=settings_from("sd", _HIGH_SD),
    citation=CITATION,
    random=False,
)
def high_pass(image: Floats, step: int, _rng: None) -> Floats:
    """Grey, the difference from its Gaussian blur, about the mean grey of the experiments' images.

    `inf` is the grey image with its own mean: no filter at all.
    """
    grey = to_grey(image)
    sd = _HIGH_SD[step]
    if sd is None:
        return restore_channels(grey, image)
    rest = grey - _smooth(grey, sd)
    return restore_channels(rest + (_SURROUND - rest.mean()), image)


def _reduce_contrast(grey: Floats, factor: float) -> Floats:
    """Multiply distances from mid-grey (1/2, not the image's own mean) by `factor`."""
    return grey * np.float32(factor) + np.float32((1 - factor) / 2)


@declare(
    manipulations,
    "contrast",
    steps=("c100", "c50", "c30", "c15", "c10", "c05", "c03", "c01"),
    settings=settings_from("contrast", _CONTRASTS),
    citation=CITATION,
    random=False,
)
def contrast(image: Floats, step: int, _rng: None) -> Floats:
    """Grey, with a nominal contrast about mid-grey."""
    return restore_channels(_reduce_contrast(to_grey(image), _CONTRASTS[step]), image)


@declare(
    manipulations,
    "uniform-noise",
    steps=("0.00", "0.03", "0.05", "0.10", "0.20", "0.35", "0.60", "0.90"),
    settings=settings_from("width contrast", [(width, _CONTRAST_UNDER_NOISE) for width in _WIDTHS]),
    citation=CITATION,
)
def uniform_noise(image: Floats, step: int, rng: np.random.Generator) -> Floats:
    """Grey at 30 % contrast plus one draw per pixel from U(-width, width).

    Width 0 is still at 30 % contrast.
    """
    quiet = _reduce_contrast(to_grey(image), _CONTRAST_UNDER_NOISE)
    draws = rng.random(quiet.shape, dtype=np.float32)
    return restore_channels(quiet + (2 * draws - 1) * np.float32(_WIDTHS[step]), image)


@declare(
    manipulations,
    "rotation",
    steps=tuple(map(str, _DEGREES)),
    settings=settings_from("degrees", _DEGREES),
    citation=CITATION,
    random=False,
    growing_steps=(0, 2),  # no rotation is stronger than another; 0 and 180 are defined for every shape
)
def rotation(image: Floats, step: int, _rng: None) -> Floats:
    """Grey, rotated anticlockwise by quarter turns.

    The paper names the angles only; the direction is that of the released pictures.
    """
    height, width = image.shape[:2]
    if step % 2 and height != width:
        raise InvalidInput(
            f"only a square image can be rotated by {_DEGREES[step]} degrees, got {width} x {height}; "
            "crop it to a square first, or use 0 or 180"
        )
    return restore_channels(np.ascontiguousarray(np.rot90(to_grey(image), step)), image)


@declare(
    manipulations,
    "colour",
    steps=("cr", "bw"),
    settings=settings_from("colour", (True, False)),
    citation=CITATION,
    random=False,
)
def colour(image: Floats, step: int, _rng: None) -> Floats:
    """In colour (cr), or grey (bw)."""
    return restore_channels(to_grey(image), image) if step else image


@declare(
    manipulations,
    "false-colour",
    steps=("true", "false"),
    settings=settings_from("opponent", (False, True)),
    citation=CITATION,
    random=False,
    eight_bit=True,
)
def false_colour(image: Bytes, step: int, _rng: None) -> Bytes:
    """In its own colours (true), or in the opponent colours of the same luminance (false).

    Both chromatic axes are inverted in the light of the experiment's monitor; colours it cannot show are clipped. Grey
    has no opponent colour and stays.
    """
    if step == 0 or image.ndim == 2:
        return image
    light = cv2.transform(cv2.LUT(image, _MONITOR), _INVERT_COLOUR)
    return np.searchsorted(_THRESHOLDS, light).astype(np.uint8)
