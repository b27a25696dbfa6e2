"""A vision-language model as a judge: which of some images looks most like another? All of them are in one request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cosight.errors import InvalidInput
from cosight.extras import require_for
from cosight.files import file_name
from cosight.models.judges.questions import Choice, PixelsOf
from cosight.models.judges.questions import Question as JudgedQuestion
from cosight.models.model_spec import ModelSpec
from cosight.models.vlm.client import Question, VlmClient, encode_image, trial_answer
from cosight.models.vlm.endpoint import Reply, check_endpoint
from cosight.models.vlm.journal import Journal, Spending
from cosight.models.vlm.parsing import letter_finder
from cosight.models.vlm.prompts import choice_prompt, order_seed, shuffled
from cosight.models.vlm.settings import VlmSettings, read_settings

__all__ = ["VlmJudge", "load_vlm_judge"]


@dataclass(frozen=True)
class VlmJudge:
    """A judge that is asked by request; a refusal, or a text that names no option, is no answer.

    Attributes:
        settings: How the model is asked.
        folder: Where answers are stored as they arrive; None: nowhere.
        spending: What requests have taken so far, and the budget.
        afresh: Whether stored answers are ignored.
    """

    settings: VlmSettings
    folder: Path | None = None
    spending: Spending | None = None
    afresh: bool = False

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.settings.name

    @property
    def facts(self) -> Mapping[str, Any]:
        """The settings that change answers, and the wording of the question."""
        return {
            "settings": self.settings.identity,
            "prompt": str(choice_prompt(["", "."], reason=self.settings.reason)),
        }

    @cached_property
    def _client(self) -> VlmClient:
        path = None if self.folder is None else self.folder / "requests" / f"{file_name(self.name)}.jsonl"
        return VlmClient(self.settings, Journal(path, afresh=self.afresh), self.spending or Spending())

    def choose(self, questions: Sequence[JudgedQuestion], pixels_of: PixelsOf) -> Iterator[Choice]:
        """Yield the answer to each question; the order of its options is drawn from their stimuli."""
        images: dict[str, bytes] = {}
        asked, seeds = [], []
        for question in questions:
            seeds.append(order_seed(0, "/".join((question.query, *question.options))))
            options = shuffled(question.options, seeds[-1])
            for stimulus in (question.query, *options):
                if stimulus not in images:
                    images[stimulus] = encode_image(pixels_of(stimulus), self.settings.size)
            stimuli = (question.query, *options)
            prompt = choice_prompt(options, reason=self.settings.reason)
            asked.append(Question(prompt, stimuli, tuple(images[one] for one in stimuli), question.query))
        try:
            replies = self._client.answer(asked)
        finally:
            self._client.endpoint.close()
        for question, one, reply, seed in zip(questions, asked, replies, seeds, strict=True):
            if not isinstance(reply, Reply):
                raise InvalidInput(str(reply))
            find = letter_finder(one.prompt.options)
            answer = trial_answer(reply, find, self.settings, can_abstain=False, order_seed=seed)
            chosen = answer["response"]
            option = question.options.index(chosen) if chosen in question.options else None
            yield Choice(option, json.loads(answer["extra"]))


def load_vlm_judge(spec: ModelSpec, device: str) -> VlmJudge:
    """Return the judge of a spec, after a check of its endpoint; it runs elsewhere, so `device` has no effect."""
    require_for("vlm:")
    settings = read_settings(spec)
    check_endpoint(spec)
    return VlmJudge(settings)
