"""Fixtures for models: two photos, and small ONNX files written byte by byte (the package onnx is not needed)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest


@pytest.fixture(scope="session")
def photos():
    """A Chinese palace and a flower, 427 x 640 RGB (scikit-learn's china.jpg and flower.jpg)."""
    from sklearn.datasets import load_sample_images

    return load_sample_images().images


def _varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _field(number, value):
    """One protobuf field: a whole number, or text, bytes or a message with its length before it."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _fields(*pairs):
    return b"".join(_field(number, value) for number, value in pairs)


def _tensor(name, array, location=None):
    dims = [(1, side) for side in array.shape]
    if location is None:
        return _fields(*dims, (2, 1), (8, name), (9, array.astype("<f4").tobytes()))
    return _fields(*dims, (2, 1), (8, name), (13, _fields((1, "location"), (2, location))), (14, 1))


def _value(name, shape, kind=1):
    sides = [(1, _field(2, side) if isinstance(side, str) else _field(1, side)) for side in shape]
    return _fields((1, name), (2, _field(1, _fields((1, kind), (2, _fields(*sides))))))


def _node(kind, inputs, output, *attributes):
    return _fields(*((1, name) for name in inputs), (2, output), (4, kind), *((5, one) for one in attributes))


def _constant(name, array, location):
    """A constant inside a branch of `If`: a tensor in an attribute of a node in a subgraph."""
    inside = _node("Constant", [], f"{name}.inside", _fields((1, "value"), (20, 4), (5, _tensor("", array, location))))
    branch = _fields((1, inside), (2, "branch"), (12, _value(f"{name}.inside", array.shape)))
    branches = [_fields((1, key), (20, 5), (6, branch)) for key in ("then_branch", "else_branch")]
    return _node("If", ["yes"], name, *branches)


@dataclass(frozen=True)
class Tiny:
    """Mean of each channel (`pooled`), then a linear layer: weights (3, classes) and bias."""

    path: object
    weights: np.ndarray
    bias: np.ndarray

    def logits(self, pixels):
        return pixels.mean(axis=(2, 3)) @ self.weights + self.bias


@pytest.fixture
def tiny_onnx(tmp_path):
    """Writes a tiny ONNX classifier; field numbers as in onnx.proto3 of the ONNX project."""

    def write(name="tiny.onnx", *, shape=("N", 3, 32, 32), classes=4, outputs=("logits",), kind=1, seed=0, **external):
        """`w="FILE"` and `b="FILE"` keep the weights in files of their own, those of b as a constant in a subgraph."""
        rng = np.random.default_rng(seed)
        weights, bias = rng.normal(size=(3, classes)).astype(np.float32), rng.normal(size=classes).astype(np.float32)
        path = tmp_path / name
        for key, array in (("w", weights), ("b", bias)):
            if key in external:
                (path.parent / external[key]).write_bytes(array.astype("<f4").tobytes())
        nodes = [
            *([_constant("b", bias, external["b"])] if "b" in external else []),
            _node("GlobalAveragePool", ["image"], "means"),
            _node("Flatten", ["means"], "pooled"),
            _node("Gemm", ["pooled", "w", "b"], "logits"),
            _node("Softmax", ["logits"], "shares"),
            _node("Identity", ["logits"], "again"),
        ]
        graph = _fields(
            *((1, node) for node in nodes),
            (2, "tiny"),
            (5, _tensor("w", weights, external.get("w"))),
            *(
                [(5, _fields((1, 1), (2, 9), (8, "yes"), (9, b"\x01")))]
                if "b" in external
                else [(5, _tensor("b", bias))]
            ),
            (11, _value("image", shape, kind)),
            *(
                (12, _value(output, (shape[0] if shape else "N", 3 if output == "pooled" else classes)))
                for output in outputs
            ),
        )
        path.write_bytes(_fields((1, 8), (7, graph), (8, _fields((1, ""), (2, 13)))))
        return Tiny(path, weights, bias)

    return write


@pytest.fixture(scope="session")
def salient_onnx(tmp_path_factory):
    """A salient-object model: `map` is sigmoid(20 (red - blue)), and `side` is 0 everywhere."""
    shape = ("N", 1, 32, 32)
    graph = _fields(
        (1, _node("Conv", ["image", "w"], "raw")),
        (1, _node("Sigmoid", ["raw"], "map")),
        (1, _node("Sub", ["map", "map"], "side")),
        (2, "salient"),
        (5, _tensor("w", np.array([20, 0, -20], np.float32).reshape(1, 3, 1, 1))),
        (11, _value("image", ("N", 3, 32, 32))),
        (12, _value("map", shape)),
        (12, _value("side", shape)),
    )
    path = tmp_path_factory.mktemp("salient") / "redness.onnx"
    path.write_bytes(_fields((1, 8), (7, graph), (8, _fields((1, ""), (2, 13)))))
    return path


@pytest.fixture(scope="session")
def u2net_onnx(tmp_path_factory):
    """A model with the inputs and outputs of U2-Net: one image of 320 pixels, the fused map, then six side maps.

    The fused map is a sigmoid of red less blue of the normalised image; the side maps are 1 - map.
    """
    shape, names = (1, 1, 320, 320), [str(number) for number in range(1959, 1966)]
    graph = _fields(
        (1, _node("Conv", ["input.1", "w"], "raw")),
        (1, _node("Sigmoid", ["raw"], names[0])),
        *((1, _node("Sub", ["one", names[0]], name)) for name in names[1:]),
        (2, "u2net"),
        (5, _tensor("w", np.array([9, 0, -9], np.float32).reshape(1, 3, 1, 1))),
        (5, _tensor("one", np.ones((1, 1, 1, 1), np.float32))),
        (11, _value("input.1", (1, 3, 320, 320))),
        *((12, _value(name, shape)) for name in names),
    )
    path = tmp_path_factory.mktemp("u2net") / "u2net.onnx"
    path.write_bytes(_fields((1, 8), (7, graph), (8, _fields((1, ""), (2, 13)))))
    return path
