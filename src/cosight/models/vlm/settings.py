"""`vlm:NAME[,key=value...]`: how a vision-language model is asked, from the options in its name.

| option | value | default |
|---|---|---|
| `choice` | `auto`: constrain the answer to the options where the endpoint can do so; `free`: plain text | auto |
| `reason` | `yes`: also ask for the reason, and keep it | no |
| `refusal` | a refusal is the answer `abstain`, or `none` (no answer) | abstain |
| `unparsed` | the same for text that names no option, or several | none |
| `temperature` | sampling temperature, or `default` (that of the endpoint) | 0 |
| `max_tokens` | largest number of tokens of an answer | 1000 |
| `detail` | image detail as OpenAI defines it: `auto`, `low`, `high` | auto |
| `size` | longer side in pixels above which an image is shrunk before it is sent | 2048 |
| `price` | price of a million tokens, input/output, in any currency | unknown |
| `concurrency` | requests at the same time | 4 |
| `rate` | most requests per minute | no limit |
| `retries` | retries of a failed request | 6 |
| `timeout` | seconds to wait for an answer | 60 |
| `backoff` | seconds before the first retry, doubled for each further one | 1 |
| `name` | the observer's name | |

The options from `price` to `backoff` do not change answers and are not part of the observer's name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from cosight.errors import InvalidInput
from cosight.models.model_spec import ModelSpec

__all__ = ["KEY", "URL", "VLM_KEYS", "Fallback", "VlmSettings", "check_key", "read_settings"]

KEY, URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"  # environment variables; their values are never stored or printed
Fallback = Literal["abstain", "none"]  # what a refusal or a text without an answer becomes
_EXECUTION = ("price", "concurrency", "rate", "retries", "timeout", "backoff")  # settings that do not change answers
_WORDS: Mapping[str, tuple[str, ...]] = {
    "choice": ("auto", "free"),
    "reason": ("no", "yes"),
    "refusal": ("abstain", "none"),
    "unparsed": ("abstain", "none"),
    "detail": ("auto", "low", "high"),
}
_WHOLE: Mapping[str, tuple[int, int]] = {  # least and most
    "max_tokens": (1, 1_000_000),
    "size": (32, 16_384),
    "concurrency": (1, 256),
    "retries": (0, 100),
}
_SECONDS: Mapping[str, tuple[float, float]] = {"timeout": (0.01, 86_400), "backoff": (0, 3_600), "rate": (0.01, 1e6)}
VLM_KEYS = (*_WORDS, "temperature", *_WHOLE, *_SECONDS, "price", "name")


@dataclass(frozen=True, slots=True)
class VlmSettings:
    """The settings of a `vlm:` model; see the table of this module."""

    model: str  # its name at the endpoint
    name: str  # of the observer
    choice: Literal["auto", "free"] = "auto"
    reason: bool = False
    refusal: Fallback = "abstain"
    unparsed: Fallback = "none"
    temperature: float | None = 0.0
    max_tokens: int = 1000
    detail: Literal["auto", "low", "high"] = "auto"
    size: int = 2048
    price: tuple[float, float] | None = None
    concurrency: int = 4
    rate: float | None = None
    retries: int = 6
    timeout: float = 60.0
    backoff: float = 1.0

    @property
    def identity(self) -> dict[str, Any]:
        """All settings that change an answer, as JSON."""
        return {key: value for key, value in asdict(self).items() if key not in _EXECUTION}

    def cost(self, tokens_in: float, tokens_out: float) -> float | None:
        """Return the price of some tokens; None where it is not known.

        >>> VlmSettings("m", "vlm:m", price=(2.5, 10)).cost(1_000_000, 100_000)
        3.5
        """
        return None if self.price is None else (tokens_in * self.price[0] + tokens_out * self.price[1]) / 1e6


def read_settings(spec: ModelSpec) -> VlmSettings:
    """Return the settings in a model's name.

    Args:
        spec: The name.

    Returns:
        The settings.

    Raises:
        InvalidInput: The value of an option is wrong.

    >>> from cosight.models.model_spec import parse
    >>> settings = read_settings(parse("vlm:gpt-4o,reason=yes,price=2.5/10"))
    >>> settings.name, settings.price
    ('vlm:gpt-4o,reason=yes', (2.5, 10.0))
    """
    values: dict[str, Any] = {}
    for key, text in spec.options:
        if key in _WORDS:
            if text not in _WORDS[key]:
                raise InvalidInput(f"{key} must be {' or '.join(_WORDS[key])}, got {text!r}")
            values[key] = text == "yes" if key == "reason" else text
        elif key in _WHOLE:
            values[key] = int(_number(spec, key, *_WHOLE[key], whole=True))
        elif key in _SECONDS:
            values[key] = _number(spec, key, *_SECONDS[key])
        elif key == "temperature":
            values[key] = None if text == "default" else _number(spec, key, 0, 2)
        elif key == "price":
            price = spec.numbers(key) or ()
            if len(price) != 2 or min(price) < 0:
                raise InvalidInput(f"price must be two numbers per million tokens, input/output, got {text!r}")
            values[key] = price
    return VlmSettings(spec.name, spec.label, **values)


def _number(spec: ModelSpec, key: str, least: float, most: float, *, whole: bool = False) -> float:
    numbers = spec.numbers(key) or ()
    if len(numbers) != 1 or not least <= numbers[0] <= most or (whole and numbers[0] % 1):
        kind = "a whole number" if whole else "a number"
        raise InvalidInput(f"{key} must be {kind} from {least:g} to {most:g}, got {spec.get(key)!r}")
    return numbers[0]


def check_key(spec: ModelSpec) -> None:
    """Raise InvalidInput where the key of the endpoint is missing."""
    if not os.environ.get(KEY, "").strip():
        raise InvalidInput(
            f"{spec} needs the key of its endpoint, {KEY} is not set; set it (a local server takes any text, and "
            f"{URL} is its address)"
        )
