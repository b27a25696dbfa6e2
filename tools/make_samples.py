"""Write the Parquet files of `cosight.samples` from the published CSV files.

    python tools/make_samples.py FOLDER

FOLDER has one folder of CSV files per sample (`cue-conflict`, `edges`, `silhouettes`): `raw-data` of
https://github.com/wichmann-lab/error-consistency, or the mirror's copy. Run it again whenever the trial table gets
another column; the output does not depend on the machine, only on the versions of cosight and polars.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from cosight.trials import read
from cosight.trials.parquet import write_table
from cosight.trials.samples import samples

_ZSTD_LEVEL = 22  # a third smaller than the default; reading is as fast


def main(folder: Path) -> None:
    for sample in samples.values():
        write_table(read(folder / sample.name), sample.path)
        _compress(sample.path)
        print(f"{sample.path}: {sample.path.stat().st_size:,} bytes")


def _compress(path: Path) -> None:
    """Write the same table and metadata again with the strongest compression."""
    frame, metadata = pl.read_parquet(path), pl.read_parquet_metadata(path)
    own = {key: value for key, value in metadata.items() if not key.startswith("ARROW:")}
    frame.write_parquet(path, compression="zstd", compression_level=_ZSTD_LEVEL, metadata=own)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} FOLDER, the folder with {', '.join(samples)}")
    main(Path(sys.argv[1]))
