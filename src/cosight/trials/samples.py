"""Samples: trials of people and networks that ship with the package, accepted as `sample:NAME` like a trial file."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import polars as pl

from cosight.errors import InvalidInput
from cosight.registry import Registry

__all__ = ["Sample", "is_sample", "sample_counts", "samples", "trial_path"]

_PREFIX = "sample:"


@dataclass(frozen=True, slots=True)
class Sample:
    """A packaged file of trials: what was shown, its licence, and where it comes from."""

    name: str
    experiment: str
    licence: str
    source: str

    @property
    def path(self) -> Path:
        """The Parquet file."""
        return Path(str(files("cosight.samples"))) / f"{self.name}.parquet"

    @property
    def reference(self) -> str:
        """The text that stands for the sample: `sample:NAME`."""
        return _PREFIX + self.name


samples: Registry[Sample] = Registry("sample")

for _name, _experiment in (
    ("cue-conflict", "images with the shape of one class and the texture of another"),
    ("edges", "edge drawings"),
    ("silhouettes", "filled silhouettes"),
):
    _source = "Geirhos et al. 2019 (images, people), Geirhos et al. 2020 (networks)"
    samples.add(_name, Sample(_name, _experiment, "CC BY 4.0", _source))


def is_sample(source: object) -> bool:
    """Return whether `source` names a sample: a text or path that starts with `sample:`.

    >>> is_sample("sample:edges"), is_sample("edges.parquet")
    (True, False)
    """
    return isinstance(source, str | Path) and str(source).startswith(_PREFIX)


def trial_path(source: str | Path) -> Path:
    """Return the path that `source` stands for: the packaged file for `sample:NAME`, else the path itself.

    Args:
        source: A path, or `sample:NAME`.

    Returns:
        The path to read. It need not exist unless it is a sample's.

    Raises:
        UnknownName: No sample has this name.
        InvalidInput: The packaged file is missing.

    >>> trial_path("sample:edges").name
    'edges.parquet'
    """
    if source == "":
        raise InvalidInput("trials must be a file or folder, got an empty path; name one")
    if not is_sample(source):
        return Path(source)
    sample = samples[str(source).removeprefix(_PREFIX)]
    if not sample.path.is_file():
        raise InvalidInput(f"{sample.reference} is not installed: {sample.path} is missing; reinstall cosight")
    return sample.path


def sample_counts(sample: Sample) -> dict[str, int]:
    """Count the people, networks, images and trials of a sample.

    Args:
        sample: The sample.

    Returns:
        The four numbers by name.

    Raises:
        InvalidInput: The packaged file is missing.

    >>> sample_counts(samples["edges"])
    {'people': 10, 'networks': 25, 'images': 160, 'trials': 5600}
    """
    frame = pl.read_parquet(trial_path(sample.reference), columns=["observer", "kind", "image"], glob=False)
    observers = frame.unique(["observer", "kind"])["kind"]
    return {
        "people": int((observers == "human").sum()),
        "networks": int((observers == "model").sum()),
        "images": frame["image"].n_unique(),
        "trials": frame.height,
    }
