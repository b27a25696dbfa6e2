"""Imports run only downwards, and the core stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "cosight"
FLOORS = [
    {
        *("errors", "extras", "registry", "arrays", "devices", "files", "processes", "progress", "toml_settings"),
        *("torchvision_ops", "data", "samples"),
    },
    {"measures"},
    {"trials"},
    {"statistics"},
    {"stimuli"},
    {"models", "humans"},
    {"training"},
    {"benchmarks"},
    {"scoring"},
    {"runs"},
    {"study", "export"},
    {"reports"},
    {"demos"},
    {"cli"},
    {"__main__"},
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
# the ground floor has an order of its own
GROUND_ORDER = [
    "errors",
    "extras",
    "registry",
    "arrays",
    "devices",
    "files",
    "processes",
    "progress",
    "toml_settings",
    "torchvision_ops",
    "data",
    "samples",
]


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{a.name}" for a in node.names} if node.module == "cosight" else {node.module}
    return {name.split(".")[1] for name in names if name.startswith("cosight.")}


def is_below(other: str, room: str) -> bool:
    if FLOOR[room] == FLOOR[other] == 0:
        return GROUND_ORDER.index(other) < GROUND_ORDER.index(room)
    return FLOOR[other] < FLOOR[room]


def test_imports_run_downwards():
    paths = [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]
    imports = {(path, room_of(path), other) for path in paths for other in imported_rooms(path)}
    assert len(imports) > len(paths)
    assert [entry for entry in imports if entry[1] != entry[2] and not is_below(entry[2], entry[1])] == []


def test_every_room_has_a_floor():
    assert {room_of(p) for p in SOURCE.rglob("*.py")} - {"__init__"} <= set(FLOOR)


@pytest.mark.parametrize(
    "code",
    [
        "import cosight",
        "import cosight.cli",
        "import cosight; cosight.measures; cosight.compare",
        "import cosight.stimuli",
    ],
)
def test_heavy_libraries_stay_out(code):
    heavy = [
        "torch",
        "torchvision",
        "timm",
        "onnxruntime",
        "cv2",
        "numba",
        "PIL",
        "sklearn",
        "pandas",
        "statsmodels",
        "matplotlib",
        "scipy.stats",
        "sqlalchemy",
        "starlette",
        "uvicorn",
        "httpx",
        "jinja2",
    ]
    check = f"{code}; import sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_study_is_served_and_judged_without_the_extras():
    """What `pip install cosight` brings is enough: neither OpenCV nor torch, numba or matplotlib."""
    code = "import cosight.humans.web.server, cosight.humans.results.export, cosight.cli.study"
    heavy = ["torch", "cv2", "numba", "matplotlib", "timm", "sklearn", "playwright"]
    check = f"{code}; import sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_cosight_alone_imports_no_numpy():
    check = "import cosight, sys; print('numpy' in sys.modules, 'polars' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"
