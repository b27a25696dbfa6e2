"""LAION-C: photos with distortions that are unlike anything on the web (Li et al. 2025).

* `photo_selection`   which photos of a folder a set is made of
* `published`         the numbers of the paper: Tables 1, 8, 9 and 10
* `results_table`     accuracy by distortion and level, error consistency with people, for `cosight score --on laion-c`
* `occlusion`         how much of the object stickers and shapes cover
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cosight.benchmarks.entry import AlteredPhotos, Benchmark, BuildResult, Progress, ReportChart, ReportSection
from cosight.benchmarks.laion_c.results_table import TABLE
from cosight.processes import core_count

__all__ = ["LAION_C", "build"]


def build(
    source: Annotated[Path, "Folder of photos in folders of ImageNet classes (WordNet ids, numbers) or superclasses."],
    out: Annotated[Path, "Output folder. An unfinished set there is resumed."],
    *,
    per_class: Annotated[
        int | None, "Photos per superclass, drawn by their names (published: 273; default: all)."
    ] = None,
    files: Annotated[Path | None, "Text file with the names of the photos to use, one per line."] = None,
    tiles: Annotated[
        Path | None, "Folder of images, or a tile index, that mosaic and stickers draw from (default: all of SOURCE)."
    ] = None,
    geometry: Annotated[
        Literal["per-image", "published"], "Bands of glitched: drawn per image, or the published set's."
    ] = "per-image",
    format: Annotated[Literal["png", "jpeg"], "File format of the images."] = "png",  # noqa: A002 (the option's name)
    seed: Annotated[int, "Seed of everything random."] = 0,
    workers: Annotated[int | None, "Number of worker processes (default: one per core)."] = None,
    progress: Progress | None = None,
) -> BuildResult:
    """Build LAION-C from photos: six distortions at five levels, and the undistorted photos.

    The set's folder `images/` has the layout of the published set: DISTORTION/intensity_level_N/SUPERCLASS/PHOTO. Where
    photos have masks next to them (NAME.mask.png), occlusion.csv has the share of the object that is covered.

    Examples:
        cosight build laion-c objects distorted --per-class 1
        cosight build laion-c objects distorted --files chosen.txt --format jpeg

    Args:
        progress: Called with the number of finished images, the number of all images and a label.

    Returns:
        The set.

    Raises:
        InvalidInput: If a folder is no class, a superclass has too few photos, a file that is named does not exist, or
            `out` belongs to another set.

    >>> import numpy as np
    >>> from cosight.stimuli import encode
    >>> Path("photos", "cat").mkdir(parents=True)
    >>> _ = Path("photos", "cat", "1.png").write_bytes(encode(np.zeros((64, 64, 3), np.uint8), "png"))
    >>> build(Path("photos"), Path("set"))
    Traceback (most recent call last):
    cosight.errors.InvalidInput: each of the 16 superclasses needs 1 photo, photos has fewer of some: ball 0, bird 0,
    boat 0 and 12 more; add photos
    """
    from cosight.benchmarks.altering import photo_alterations
    from cosight.benchmarks.laion_c.occlusion import object_occlusion, occlusion_notices, write_occlusion
    from cosight.benchmarks.laion_c.photo_selection import select_photos
    from cosight.stimuli.generate import check_output, generate_set

    source, out, workers = Path(source), Path(out), workers or core_count()
    photos, notices = select_photos(source, labels=LAION_C.labels, per_class=per_class, files=files, seed=seed)
    check_output(out, outside=[source])
    recipe, remarks = photo_alterations(
        LAION_C,
        photos,
        out,
        tile_images=source,
        tiles=tiles,
        geometry=geometry,
        labels=LAION_C.labels,
        seed=seed,
        workers=workers,
    )
    shares = list(object_occlusion(recipe))
    generated = generate_set(recipe, out, format=format, workers=workers, progress=progress)
    if shares:
        write_occlusion(shares, out)
        remarks += occlusion_notices(shares)
    return BuildResult(generated, notices=(*notices, *remarks))


LAION_C = Benchmark(
    name="laion-c",
    summary="Six distortions unlike anything on the web, five levels, 16 superclasses.",
    source="Li et al. 2025, LAION-C",
    labels="laion-c-16",
    experiment="laion-c",
    humans="19 people in a laboratory; their trials are not included",
    needs="photos in class folders",
    measures=("accuracy", "error_consistency"),
    build=build,
    example="cosight evaluate MODEL --on laion-c --source PHOTOS",
    altered=AlteredPhotos(verb="distort", prepare="256/224", every_class=True, clean=True, laion_c_layout=True),
    table=TABLE,
    sections={
        "table": ReportSection(
            "Accuracy by distortion",
            "For every model: accuracy on the undistorted photos, on each distortion as the mean over its five levels, "
            "and the mean over distortions (LAION-C). Rows marked as published are those of the paper.",
            (
                ReportChart(
                    "lines", "Accuracy by level, one panel per distortion", "accuracy", x="level", facet="condition"
                ),
            ),
        ),
        "stimuli": ReportSection(
            "What was shown",
            "Photos of 16 superclasses, undistorted and with six distortions at five levels. The distortions are "
            "synthetic, so that models trained on the web have hardly met them.",
            (ReportChart("pictures", "Some of the images"),),
        ),
    },
)
