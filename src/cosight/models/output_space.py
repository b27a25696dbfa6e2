"""The label space of a model's own outputs."""

from __future__ import annotations

from cosight.errors import InvalidInput
from cosight.models.model import Model
from cosight.trials.spaces import LabelSpace, label_spaces

__all__ = ["output_space"]

_USUAL_SPACE = "imagenet-1k"  # that most classifiers without class names were trained on


def output_space(model: Model, space: LabelSpace) -> tuple[LabelSpace, str | None]:
    """Return the label space of a model's outputs.

    Outputs without names are taken to be the classes of `space`, of the space that its classes are made of, or of
    ImageNet, in the usual order, where their number fits.

    Args:
        model: The model.
        space: The label space of the answers.

    Returns:
        The label space, and a note if it is a guess.

    Raises:
        InvalidInput: The outputs have no names, and their number fits no such space.
    """
    if (names := model.class_names) is not None:
        known = next((known for known in label_spaces.values() if known.classes == names), None)
        return known or LabelSpace(f"the classes of {model.name}", names), None
    parent = [label_spaces[space.members_of]] if space.members_of else []
    candidates = (space, *parent, label_spaces[_USUAL_SPACE])
    own = next((one for one in candidates if len(one.classes) == model.classes), None)
    if own is None:
        raise InvalidInput(
            f"{model.name} has {model.classes:,} outputs without names, {space.name} has {len(space.classes)} "
            "classes; name them with classes=FILE, or train a linear probe on its features (--probe TRAINSET)"
        )
    note = (
        f"its {model.classes:,} outputs have no names and are assumed to be {own.name}'s in the usual order "
        "(classes=FILE names them)"
    )
    return own, note
