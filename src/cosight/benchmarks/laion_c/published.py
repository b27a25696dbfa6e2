"""The numbers of the paper (Li et al. 2025, LAION-C), for tables and figures in which they are marked as published."""

from __future__ import annotations

from collections.abc import Mapping

from cosight.statistics.rows import GroupKey, Row

__all__ = [
    "AVERAGE_PERSON",
    "BEST_PERSON",
    "DISTORTIONS",
    "FINE_TUNED",
    "IMAGENET",
    "OCCLUSION",
    "PREFIX",
    "TABLE_10",
    "published_rows",
]

# in the order of Table 10
DISTORTIONS = (
    "mosaic", "vertical_lines", "glitched", "luminance_checkerboard", "geometric_shapes", "stickers",
)  # fmt: skip
PREFIX = "published:"  # of the observers whose numbers are quoted
BEST_PERSON, AVERAGE_PERSON = "best human observer", "average human observer"
IMAGENET = "imagenet-1k"  # experiment of the rows with accuracy on ImageNet's validation images, 1,000 classes
_PHOTOS = 273 * 16 * 5  # stimuli per distortion

# Table 10, in percent: ImageNet, LAION-C, then the distortions
TABLE_10: Mapping[str, tuple[float | None, float, float, float, float, float, float, float]] = {
    "EVA-G-P14-560-M30M-IN22K": (89.8, 67.5, 48.8, 53.6, 70.8, 97.2, 81.0, 53.4),
    "EVA02-L-P14-448-MIM-M38M-IN22K": (90.1, 66.8, 53.6, 58.2, 78.2, 93.6, 76.4, 40.6),
    "ViT-H-P14-336-CLIP-LAION-IN12K": (88.6, 57.3, 45.2, 51.2, 69.8, 88.2, 64.4, 24.6),
    "ViT-L-P14-224-CLIP-OpenAI-IN12K": (88.3, 57.8, 52.6, 49.8, 68.2, 98.6, 55.4, 22.4),
    "ViT-B-P32-384-CLIP-LAION-IN12K": (85.4, 36.4, 36.8, 35.2, 35.8, 54.0, 37.6, 19.2),
    "ViT-B-P16-224-AugReg-IN21K": (85.5, 47.1, 46.4, 42.8, 62.0, 71.4, 42.4, 17.6),
    "BEiT-v2-L-P16-224-IN1K": (87.4, 47.7, 52.4, 44.8, 63.2, 70.2, 11.8, 43.8),
    "BEiT-v2-B-P16-224-IN1K": (85.6, 42.2, 46.2, 40.4, 52.6, 68.2, 11.4, 34.6),
    "ConvNeXt-XXL-CLIP-LAION-IN1K": (88.6, 54.8, 53.0, 53.4, 71.8, 77.4, 52.2, 20.8),
    "ConvNeXt-B-CLIP-LAION-AugReg-IN12K": (87.6, 42.3, 37.6, 43.8, 44.4, 54.2, 50.4, 23.2),
    "WRN101-2-TV-IN1K": (78.8, 21.4, 30.4, 28.4, 22.0, 22.8, 18.2, 6.8),
    "WRN50-2-RACM-IN1K": (81.5, 24.0, 26.8, 21.4, 17.0, 45.0, 24.6, 9.4),
    "RN50-A1-IN1K": (81.2, 19.9, 28.0, 18.8, 20.8, 23.4, 21.2, 7.0),
    "EFF-B3-RA2-IN1K": (82.3, 33.2, 32.4, 31.8, 40.2, 45.2, 37.6, 12.2),
    "DN201-TV-IN1K": (77.3, 19.2, 28.6, 26.2, 13.2, 23.2, 16.8, 7.2),
    "DN161-TV-IN1K": (77.3, 20.0, 31.0, 26.8, 15.2, 25.2, 15.4, 6.6),
    "GPT-4o": (None, 54.1, 42.8, 45.4, 65.1, 80.1, 54.2, 36.5),
    "Gemini 1.5 Pro": (None, 50.2, 34.9, 37.0, 46.2, 84.4, 60.9, 38.1),
    BEST_PERSON: (None, 55.2, 58.0, 55.3, 78.7, 63.4, 40.4, 35.7),
    AVERAGE_PERSON: (None, 47.0, 50.8, 43.6, 71.0, 53.1, 34.3, 29.1),
}
# stimuli per distortion that the rows above rest on, where it is not all of them
_TRIALS = {"GPT-4o": 8000, "Gemini 1.5 Pro": 8000, BEST_PERSON: 300, AVERAGE_PERSON: 1900}

# Table 9, in percent by level: ViT-H-P14-336-CLIP-LAION-IN12K before and after fine-tuning on the distortions. Its
# values before fine-tuning on shapes and stickers do not agree with Tables 1 and 10.
FINE_TUNED: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "mosaic": ((89.0, 71.9, 35.8, 14.3, 14.7), (96.3, 93.0, 88.7, 69.6, 47.7)),
    "vertical_lines": ((79.9, 70.1, 50.8, 36.1, 19.4), (95.9, 94.9, 94.1, 92.4, 90.0)),
    "glitched": ((95.9, 86.2, 63.6, 55.6, 47.1), (98.6, 97.5, 95.4, 94.2, 93.4)),
    "luminance_checkerboard": ((99.7, 98.4, 95.1, 90.7, 56.6), (99.6, 99.2, 98.8, 98.5, 92.5)),
    "geometric_shapes": ((30.9, 11.2, 6.7, 6.6, 6.3), (99.4, 98.6, 93.6, 85.9, 73.7)),
    "stickers": ((97.3, 77.8, 28.7, 14.9, 8.1), (98.8, 96.5, 63.7, 31.8, 14.3)),
}
_BEFORE_AFTER = ("ViT-H-P14-336-CLIP-LAION-IN12K before", "ViT-H-P14-336-CLIP-LAION-IN12K fine-tuned")

# Table 8: share of the object that is covered, by level
OCCLUSION: Mapping[str, tuple[float, ...]] = {
    "geometric_shapes": (0.6188, 0.7251, 0.8535, 0.9016, 0.9321),
    "stickers": (0.6583, 0.7652, 0.8619, 0.8954, 0.9163),
}


def published_rows(experiment: str) -> list[Row]:
    """Return the numbers of Tables 9 and 10 as score rows with the flag `published`, without intervals.

    Args:
        experiment: The experiment that the rows are about.
    """
    rows = []

    def add(name: str, group: GroupKey, percent: float, n: int, table: int) -> None:
        rows.append(
            Row(
                observer=PREFIX + name,
                measure="accuracy",
                group=group,
                value=round(percent / 100, 4),
                n=n,
                flags=("published",),
                note=f"Li et al. 2025, Table {table}",
            )
        )

    for name, (imagenet, overall, *by_distortion) in TABLE_10.items():
        n = _TRIALS.get(name, _PHOTOS)
        if imagenet is not None:
            add(name, (("experiment", IMAGENET),), imagenet, 50_000, 10)
        for condition, percent in zip(DISTORTIONS, by_distortion, strict=True):
            add(name, (("experiment", experiment), ("condition", condition), ("level", "*")), percent, n, 10)
        add(name, (("experiment", experiment), ("condition", "*"), ("level", "*")), overall, n * 6, 10)
    for condition, curves in FINE_TUNED.items():
        for name, by_level in zip(_BEFORE_AFTER, curves, strict=True):
            for level, percent in enumerate(by_level, start=1):
                group = (("experiment", experiment), ("condition", condition), ("level", str(level)))
                add(name, group, percent, _PHOTOS // 5, 9)
    return rows
