"""Damaged stimulus sets: manifests, recipes and images."""

import json

from tests.fuzz.mutations import damage_bytes, damage_json


def test_manifests(cases, fuzz, photos_folder, cosight, tmp_path):
    target = tmp_path / "set"
    assert cosight("stimuli", "corrupt", photos_folder, target, "--kind", "contrast", "--severity", 1).code == 0
    files = [path for path in sorted(target.rglob("*")) if path.is_file()]
    contents = {path: path.read_bytes() for path in files}

    def prepare(rng):
        for path, content in contents.items():
            path.write_bytes(content)
        path = files[int(rng.integers(len(files)))]
        kind = damage_json if path.suffix == ".json" and rng.random() < 0.8 else damage_bytes
        try:
            path.write_bytes(kind(contents[path], rng))
        except json.JSONDecodeError:  # a journal of several lines
            path.write_bytes(damage_bytes(contents[path], rng))
        return "stimuli", "verify", target

    fuzz(cases, prepare, codes=(0, 1, 2))  # 1: the images are not those of the manifest
