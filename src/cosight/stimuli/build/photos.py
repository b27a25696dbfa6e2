"""A folder of source photos, by class or just by folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cosight.errors import InvalidInput
from cosight.stimuli.build.sources import Pool
from cosight.stimuli.prepare import Preparation
from cosight.stimuli.sets import SourceImage, StimulusSet, read_set, source_image
from cosight.trials.spaces import LabelSpace

__all__ = ["Photos", "photos_in"]


@dataclass(frozen=True, slots=True)
class Photos:
    """Images of one folder or set; masks that lie beside them are no photos. `photos_in` makes one."""

    stimuli: StimulusSet

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self.stimuli.root

    @property
    def files(self) -> tuple[str, ...]:
        """Their names inside the folder."""
        return tuple(self.stimuli.frame["file"])

    def path(self, file: str) -> Path:
        """Where one of them is."""
        return self.stimuli.path(file)

    def by_folder(self) -> Pool:
        """Their names by the folder they lie in."""
        groups = self.stimuli.frame.group_by("truth", maintain_order=True)
        return {str(truth or "images"): tuple(part["file"]) for (truth,), part in groups}

    def by_class(self, space: LabelSpace) -> Pool:
        """Their names by class, in the order of the space; folders are recognised as its classes."""
        folders = self.by_folder()
        known = space.recognise(folders)
        lacking = [name for name in space.classes if name not in known.values()]
        if lacking:
            raise InvalidInput(f"photos must be of every class of {space.name}, {self.folder} has none of {lacking[0]}")
        own: dict[str, tuple[str, ...]] = dict.fromkeys(space.classes, ())
        for folder, files in folders.items():
            own[known[folder]] += tuple(files)
        return own

    def read(self, file: str, prepare: Preparation | None) -> SourceImage:
        """One of them, prepared; checked against the manifest where there is one."""
        row = self.stimuli.frame.row(by_predicate=pl.col("file") == file, named=True)
        return source_image(self.stimuli, file, prepare, expected=row["stimulus"])


def photos_in(folder: str | Path) -> Photos:
    """The photos of a stimulus set or of a folder of images."""
    stimuli = read_set(folder)
    frame = stimuli.frame.filter(~pl.col("file").str.ends_with(".mask.png"))
    if not frame.height:
        raise InvalidInput(f"a source folder holds photos, {folder} has only masks; name another")
    return Photos(StimulusSet(stimuli.root, frame, stimuli.facts))
