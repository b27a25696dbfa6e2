"""The protocol of a study for a reader: numbers, instructions, and the words of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from cosight.humans.study.design import Study
from cosight.humans.study.texts import label_titles

__all__ = ["StudyProtocol", "study_protocol"]


@dataclass(frozen=True, slots=True)
class StudyProtocol:
    """The protocol of a study.

    Attributes:
        name: Name of the study.
        type: Trial type.
        summary: What a trial is, in words.
        numbers: Settings of the design and the timing that are not 0 or unset, by name.
        instructions: The instructions.
        question: The question of each trial.
        buttons: Answer -> the words on its button; empty where answers are not classes.
    """

    name: str
    type: str
    summary: str
    numbers: Mapping[str, float]
    instructions: str
    question: str
    buttons: Mapping[str, str]


def study_protocol(study: Study) -> StudyProtocol:
    """Return the protocol of a study.

    Args:
        study: The study.

    Returns:
        The protocol.
    """
    settings = asdict(study.design) | ({} if study.timing is None else asdict(study.timing))
    return StudyProtocol(
        study.name,
        study.type,
        study.kind.summary,
        {name: value for name, value in settings.items() if value},
        study.texts[f"instructions_{study.type}"],
        study.texts[f"question_{study.type}"],
        label_titles(study),
    )
