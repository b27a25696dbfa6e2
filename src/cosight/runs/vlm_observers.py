"""Vision-language models as observers of a run: one question per stimulus, answers kept as soon as they arrive."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cosight.models.model_spec import parse
from cosight.models.vlm.client import Question, VlmClient, encode_image, trial_answer
from cosight.models.vlm.endpoint import Reply
from cosight.models.vlm.estimates import answer_tokens, image_tokens
from cosight.models.vlm.journal import Journal, Spending
from cosight.models.vlm.parsing import class_finder
from cosight.models.vlm.prompts import class_prompt, large_prompt_note, order_seed
from cosight.models.vlm.settings import VlmSettings, read_settings
from cosight.runs.observers import BatchAnswers
from cosight.stimuli.images import Bytes
from cosight.trials.spaces import LabelSpace
from cosight.trials.table import SCHEMA

if TYPE_CHECKING:
    from cosight.runs.execution import OnError
    from cosight.runs.folder import RunFolder
    from cosight.runs.run_plan import RunPlan

__all__ = ["VlmObserver", "expected_tokens", "vlm_observer"]

_COLUMNS = {name: SCHEMA[name] for name in ("response", "abstention", "extra")}
_SIDE = 224  # pixels of an image whose size is not known


@dataclass(frozen=True)
class VlmObserver:
    """A vision-language model that names the class of each stimulus in the run's label space."""

    client: VlmClient
    space: LabelSpace
    seed: int  # of the order of options
    stimuli: int  # of the run
    kind: str = "vlm"

    @property
    def settings(self) -> VlmSettings:
        """How the model is asked."""
        return self.client.settings

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.settings.name

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The settings that change answers, the wording of the question, and the seed of the order of options."""
        prompt = class_prompt(self.space, reason=self.settings.reason)
        return {"observer": self.name, "settings": self.settings.identity, "prompt": str(prompt), "seed": self.seed}

    @property
    def facts(self) -> dict[str, Any]:
        """The price of tokens."""
        return {"price": self.settings.price}

    @property
    def note(self) -> str | None:
        """The size of the prompt, where it is large."""
        return large_prompt_note(self.space, self.stimuli)

    @property
    def closing_note(self) -> str | None:
        """The parameters that the endpoint does not know, after the last answer."""
        left_out = self.client.endpoint.left_out
        return f"the endpoint does not take {', '.join(left_out)}; asked without" if left_out else None

    def buffer(self, count: int) -> NDArray[Any]:
        """Return an array of objects: images as PNG files."""
        return np.empty(count, dtype=object)

    def load_into(self, buffer: NDArray[Any], index: int, pixels: Bytes) -> None:
        """Encode an image as it is sent."""
        buffer[index] = encode_image(pixels, self.settings.size)

    def answer(self, start: int, rows: pl.DataFrame, buffer: NDArray[Any]) -> BatchAnswers:
        """Return the answers; a stimulus whose answer is in the journal is not asked about again."""
        indices = [index for index, stimulus in enumerate(rows["stimulus"]) if stimulus is not None]
        seeds = {index: order_seed(self.seed, rows["stimulus"][index]) for index in indices}
        questions = [
            Question(
                class_prompt(self.space, seed=seeds[index], reason=self.settings.reason),
                (rows["stimulus"][index],),
                (buffer[index],),
                rows["file"][index],
            )
            for index in indices
        ]
        columns: list[dict[str, Any]] = [dict.fromkeys(_COLUMNS) for _ in range(rows.height)]
        unanswered = {}
        for index, reply in zip(indices, self.client.answer(questions), strict=True):
            if isinstance(reply, Reply):
                columns[index] = trial_answer(
                    reply, class_finder(self.space), self.settings,
                    can_abstain=self.space.abstain, order_seed=seeds[index],
                )  # fmt: skip
            else:
                unanswered[index] = f"{rows['file'][index]}: {reply}"
        return BatchAnswers(pl.DataFrame(columns, schema=_COLUMNS), unanswered=unanswered)


def vlm_observer(
    spec: str,
    plan: RunPlan,
    folder: RunFolder,
    *,
    spending: Spending,
    on_error: OnError = "stop",
) -> VlmObserver:
    """Return a vision-language model as an observer of a run; its earlier answers are read from the run folder."""
    settings = read_settings(parse(spec))
    tokens = expected_tokens(settings, plan.space)
    spending.expect(sum(tokens), settings.cost(*tokens) or 0.0)
    client = VlmClient(settings, Journal(folder.requests_file(settings.name)), spending, on_error)
    return VlmObserver(client, plan.space, plan.option_seed, plan.stimuli.frame.height)


def expected_tokens(
    settings: VlmSettings, space: LabelSpace, *, width: float = _SIDE, height: float = _SIDE
) -> tuple[int, int]:
    """Return the estimated tokens of a question about an image of this size, and of its answer."""
    scale = min(1.0, settings.size / max(width, height))
    image = image_tokens(round(width * scale), round(height * scale), settings.detail)
    return class_prompt(space, reason=settings.reason).tokens + image, answer_tokens(reason=settings.reason)
