"""Asks many questions at the same time; questions whose answers are in the journal are not asked again."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from PIL import Image as Pillow

from cosight.models.vlm.endpoint import Endpoint, Reply, RequestFailed, Stopped
from cosight.models.vlm.journal import Journal, Spending
from cosight.models.vlm.parsing import Finder, parse_reply
from cosight.models.vlm.prompts import Prompt
from cosight.models.vlm.settings import VlmSettings
from cosight.stimuli.images import Bytes, to_rgb
from cosight.trials.spaces import ABSTAIN

__all__ = ["Question", "VlmClient", "encode_image", "trial_answer"]

_MOST_FAILURES = 20  # questions in a row without an answer, after which the endpoint is taken to be down


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt with its images.

    Attributes:
        prompt: The text.
        stimuli: Digests of the images.
        images: The same images as PNG files.
        name: What messages call the question.
    """

    prompt: Prompt
    stimuli: tuple[str, ...]
    images: tuple[bytes, ...] = field(repr=False)
    name: str = ""


def encode_image(pixels: Bytes, size: int) -> bytes:
    """Return an image as a PNG file; one whose longer side exceeds `size` is shrunk."""
    picture = Pillow.fromarray(to_rgb(pixels))
    if max(picture.size) > size:
        picture.thumbnail((size, size), Pillow.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=3)
    return file.getvalue()


@dataclass(eq=False)
class VlmClient:
    """Asks questions, `settings.concurrency` at the same time.

    Args:
        settings: How the model is asked.
        journal: Where answers are stored.
        spending: What the run has taken so far, and its budget.
        on_error: What to do about a question without an answer: stop, or skip it.
        on_answer: Called after each new answer.
    """

    settings: VlmSettings
    journal: Journal
    spending: Spending
    on_error: Literal["stop", "skip"] = "stop"
    on_answer: Callable[[], None] | None = None
    _failures: int = 0  # questions in a row without an answer
    _fatal: Exception | None = None  # what ended the run

    def __post_init__(self) -> None:
        self.endpoint = Endpoint(self.settings, self.spending.begin_request)
        for reply in self.journal.replies():
            self.spending.recall(reply, self.settings)

    def key(self, question: Question) -> str:
        """Return the digest of everything that is sent with a question."""
        sent = {
            name: value
            for name, value in self.settings.identity.items()
            if name not in ("name", "refusal", "unparsed")  # they only decide what an answer counts as
        }
        parts = [sent, str(question.prompt), list(question.stimuli)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def answer(self, questions: Sequence[Question]) -> list[Reply | RequestFailed]:
        """Return the answers to some questions; a question that is repeated is asked once.

        Raises:
            BudgetReached: The budget is used up. Answers to earlier questions are in the journal.
            RequestFailed: A question has no answer, and `on_error` is stop.
            InvalidInput: The endpoint cannot be used.
            UnknownName: The endpoint has no model of this name.
        """
        keys = [self.key(question) for question in questions]
        missing = {
            key: question for key, question in zip(keys, questions, strict=True) if self.journal.get(key) is None
        }
        failed: dict[str, RequestFailed] = {}
        with ThreadPoolExecutor(self.settings.concurrency, thread_name_prefix="cosight-vlm") as pool:
            futures = [pool.submit(self._ask, key, question, failed) for key, question in missing.items()]
            try:
                for future in as_completed(futures):
                    future.result()
                    if self.on_answer is not None:
                        self.on_answer()
            except BaseException as error:
                self.endpoint.stopping.set()
                pool.shutdown(wait=True, cancel_futures=True)  # answers under way are paid for: wait for them
                raise self._fatal or error from None
        return [self.journal.get(key) or failed[key] for key in keys]

    def _ask(self, key: str, question: Question, failed: dict[str, RequestFailed]) -> None:
        try:
            with self.spending.question(self.settings) as count:
                reply = self.endpoint.ask(question.prompt, question.images)
                self.journal.add(key, reply)
                count(reply)
        except RequestFailed as error:
            self._failures += 1
            if self.on_error == "skip" and self._failures < _MOST_FAILURES:
                failed[key] = error
                return
            hint = "; run the same command again to ask only what is missing"
            hint += " (--on-error skip continues without an answer)" if self.on_error == "stop" else ""
            self._stop(RequestFailed(f"{error}{hint}"))
        except Stopped:
            raise
        except Exception as error:
            self._stop(error)
        self._failures = 0

    def _stop(self, error: Exception) -> NoReturn:
        """Let no other request begin, and raise the error that ends the run."""
        self._fatal = self._fatal or error
        self.endpoint.stopping.set()
        raise error


def trial_answer(
    reply: Reply, find: Finder, settings: VlmSettings, *, can_abstain: bool, **extra: Any
) -> dict[str, Any]:
    """Return the columns of a trial: `response`, `abstention` and `extra`.

    A refusal is the response `abstain` with abstention 1, or no response where the settings say so. An answer has
    abstention 0.

    Args:
        reply: The answer of the endpoint.
        find: Returns the options that a text names.
        settings: How refusals and texts without an answer count, and the price.
        can_abstain: Whether `abstain` is one of the options.
        **extra: Further facts for `extra`.
    """
    parsed = parse_reply(reply.text, find, refused=reply.refused)
    fallback = settings.unparsed if parsed.outcome == "unparsed" else settings.refusal
    if parsed.outcome == "answered":
        response, abstention = parsed.answer, 0.0
    elif fallback == "abstain" or (parsed.outcome == "abstained" and can_abstain):
        response, abstention = ABSTAIN, 1.0
    else:
        response, abstention = None, None
    cost = settings.cost(reply.tokens_in, reply.tokens_out)
    facts = {
        "outcome": parsed.outcome,
        "text": reply.text,
        "reason": parsed.reason,
        "model": reply.model,
        "constrained": reply.constrained,
        "requests": reply.requests,
        "tokens_in": reply.tokens_in,
        "tokens_out": reply.tokens_out,
        "cost": None if cost is None else round(cost, 9),
        "seconds": reply.seconds,
        **extra,
    }
    stored = json.dumps({name: value for name, value in facts.items() if value is not None}, ensure_ascii=False)
    return {"response": response, "abstention": abstention, "extra": stored}
