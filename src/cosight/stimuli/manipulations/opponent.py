"""Opponent colours: every hue changed to its opposite at the same luminance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

from cosight.stimuli.images import Bytes
from cosight.stimuli.kinds import declare
from cosight.stimuli.manipulations.conditions import CITATION, manipulations

__all__ = ["false_colour"]

# The numbers of this module are those published with Geirhos et al. 2018 (rgeirhos/generalisation-humans-DNNs, code/;
# CC BY 4.0): the experiment's monitor, measured.
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
# Light of the monitor at grey value 0 .. 255, in 1e-7 of its most (x_gamma_function.npy).
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
_BETWEEN = (_MONITOR[:-1] + _MONITOR[1:]) / 2  # light above which the next grey value is the nearer one
_GUESSES = 4096
_BELOW = np.searchsorted(_BETWEEN, np.arange(_GUESSES + 1) / _GUESSES)  # grey value at k / _GUESSES of the light


def _opposite() -> NDArray[np.float64]:
    """(3, 4): the affine map of linear RGB that turns both chromatic axes round."""
    turned = np.linalg.inv(_OPPONENTS) @ np.diag([1.0, -1.0, -1.0]) @ _OPPONENTS  # of cone differences
    to_rgb = np.linalg.inv(_CONES)
    return np.column_stack([to_rgb @ turned @ _CONES, to_rgb @ (_BACKGROUND - turned @ _BACKGROUND)])


_OPPOSITE = _opposite()


@njit(cache=True)
def _nearest_values(light: NDArray[np.float64], below: NDArray[np.int64], between: NDArray[np.float64]) -> Bytes:
    """The grey value of which the monitor's light is nearest; light outside [0, 1] is clipped."""
    flat = light.ravel()
    values = np.empty(flat.size, np.uint8)
    last = len(between)
    for i in range(flat.size):
        wanted = min(max(flat[i], 0.0), 1.0)
        value = below[int(wanted * (len(below) - 1))]
        while value < last and wanted > between[value]:
            value += 1
        values[i] = value
    return values.reshape(light.shape)


def _false_colour_settings(step: int) -> Mapping[str, Any]:
    return {"opponent": step == 1}


@declare(
    manipulations,
    "false-colour",
    steps=("true", "false"),
    settings=_false_colour_settings,
    citation=CITATION,
    random=False,
    eight_bit=True,
)
def false_colour(image: Bytes, step: int, _rng: None) -> Bytes:
    """In its own colours (true), or in the opponent ones of the same luminance (false).

    Computed in the light of the experiment's monitor, colours it cannot show clipped. Grey has no opponent and stays.
    """
    if step == 0 or image.ndim == 2:
        return image
    light = cv2.LUT(image, _MONITOR)
    return _nearest_values(cv2.transform(light, _OPPOSITE), _BELOW, _BETWEEN)  # type: ignore[arg-type]
