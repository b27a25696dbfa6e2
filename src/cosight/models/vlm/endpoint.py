"""Requests to an OpenAI-compatible endpoint: concurrency, rate, retries and errors.

Failed requests (429, 408, 409, 5xx, timeouts, lost connections, replies that are no JSON) are repeated after a delay
that doubles each time, or after the time that the endpoint names in `Retry-After`, during which no other request is
sent. Optional parameters that an endpoint does not know are left out from then on. Messages never contain the key or
the address.
"""

from __future__ import annotations

import base64
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from cosight.errors import CosightError, InvalidInput, UnknownName, did_you_mean, first_line
from cosight.models.model_spec import ModelSpec
from cosight.models.vlm.prompts import Prompt
from cosight.models.vlm.settings import KEY, URL, VlmSettings, check_key, read_settings

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

__all__ = ["Endpoint", "Reply", "RequestFailed", "Stopped", "check_endpoint"]

_LONGEST_DELAY = 60.0  # seconds between retries, unless the endpoint names a longer time
_LONGEST_RETRY_AFTER = 3600.0  # a longer time is a quota of the day: the run stops, to be resumed then
_CHECK_SECONDS = 15.0  # for the list of models, before a run
_REPEATED = (408, 409, 429)  # and everything from 500
_UNKNOWN_PARAMETER = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|extra|not permitted|invalid|deprecated",
    re.IGNORECASE,
)
_FILTERED = ("content_filter", "content_policy_violation")  # codes of errors that are refusals


class RequestFailed(InvalidInput):
    """A request had no answer, after all retries or because the endpoint does not accept it."""


class Stopped(CosightError):
    """The run stopped while a request was waiting for its turn."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the endpoint, as JSON text can store it.

    Attributes:
        text: The text; of a refusal, its explanation.
        refused: Whether the endpoint marked it as a refusal.
        model: The model that answered, as the endpoint names it.
        tokens_in: Tokens of the question.
        tokens_out: Tokens of the answer.
        requests: Requests that were sent for it, failed ones included.
        seconds: Time of the last request.
        constrained: Whether the answer was constrained to the options.
    """

    text: str
    refused: bool = False
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    requests: int = 1
    seconds: float = 0.0
    constrained: bool = False


@dataclass(eq=False)
class Endpoint:
    """Asks questions. One object serves all threads of a run.

    Args:
        settings: How the model is asked.
        before_request: Called before every request; raises where the budget is used up.
    """

    settings: VlmSettings
    before_request: Callable[[], None] = lambda: None
    stopping: threading.Event = field(default_factory=threading.Event)
    left_out: list[str] = field(default_factory=list)  # parameters that the endpoint does not know
    _client: OpenAI | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: float = 0.0  # no request before this time

    def ask(self, prompt: Prompt, images: Sequence[bytes]) -> Reply:
        """Ask one question, repeating failed requests.

        Args:
            prompt: The question.
            images: PNG files, one per image of the question.

        Returns:
            The answer, which may be a refusal.

        Raises:
            RequestFailed: There is no answer to this question.
            InvalidInput: The endpoint rejects the key, or the model cannot be asked.
            UnknownName: The endpoint has no model of this name.
            Stopped: `stopping` was set.
        """
        import openai

        requests, failures, reason = 0, 0, ""
        while failures <= self.settings.retries:
            self._wait_turn()
            self.before_request()
            client, left_out = self._connected(), tuple(self.left_out)
            requests, started = requests + 1, monotonic()
            try:
                reply = self._send(client, prompt, images, left_out)
            except openai.APIStatusError as error:
                if error.status_code in _REPEATED or error.status_code >= 500:
                    delay = _retry_after(error.response.headers)
                    if _code(error) == "insufficient_quota" or (delay or 0) > _LONGEST_RETRY_AFTER:
                        raise InvalidInput(
                            f"the quota of the endpoint is used up: {self._message(error)}; raise it or wait, then run "
                            "the same command again: answers so far are kept"
                        ) from None
                    reason = f"{error.status_code} {self._message(error)}"
                    failures += 1
                    self._delay(delay, failures)
                elif _code(error) in _FILTERED:
                    return Reply(self._message(error), refused=True, requests=requests)
                elif not self._leave_out(error, left_out):
                    raise self._rejection(error) from None
            except (openai.APIError, ValueError) as error:  # no connection, no answer in time, or one that is no JSON
                cause = error.__cause__ or error
                reason = (
                    "no answer in time" if isinstance(error, openai.APITimeoutError) else self._clean(first_line(cause))
                )
                failures += 1
                self._delay(None, failures)
            else:
                if reply is not None:
                    return Reply(
                        **reply, requests=requests, seconds=round(monotonic() - started, 3),
                        constrained="response_format" in self._parameters(prompt, left_out),
                    )  # fmt: skip
                failures, reason = failures + 1, "a reply without an answer"
                self._delay(None, failures)
        raise RequestFailed(f"{self.settings.name}: the endpoint failed {requests} times: {reason}")

    def _send(
        self, client: OpenAI, prompt: Prompt, images: Sequence[bytes], left_out: Sequence[str]
    ) -> dict[str, Any] | None:
        """Send one request; return what a reply contains, None where it has no answer."""
        completion = client.chat.completions.create(
            model=self.settings.model,
            messages=_messages(prompt, images, self.settings.detail),  # type: ignore[arg-type]
            **self._parameters(prompt, left_out),
        )
        choice = (getattr(completion, "choices", None) or [None])[0]
        message = getattr(choice, "message", None)
        if choice is None or message is None:
            return None
        refusal = getattr(message, "refusal", None)
        refused = bool(refusal) or choice.finish_reason == "content_filter"
        usage = completion.usage
        return {
            "text": self._clean(str(refusal or message.content or "")),
            "refused": refused,
            "model": completion.model,
            "tokens_in": int(getattr(usage, "prompt_tokens", 0) or 0),
            "tokens_out": int(getattr(usage, "completion_tokens", 0) or 0),
        }

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> OpenAI:
        with self._lock:
            if self._client is None:
                self._client = _connect(self.settings.timeout)
            return self._client

    def _parameters(self, prompt: Prompt, left_out: Sequence[str]) -> dict[str, Any]:
        """Return the optional parameters of a request."""
        settings = self.settings
        limit = "max_completion_tokens" if "max_tokens" in left_out else "max_tokens"
        parameters: dict[str, Any] = {limit: settings.max_tokens}
        if settings.temperature is not None:
            parameters["temperature"] = settings.temperature
        if settings.choice == "auto":
            properties: dict[str, Any] = {"answer": {"type": "string", "enum": list(prompt.options)}}
            if prompt.reason:
                properties["reason"] = {"type": "string"}
            schema = {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
            parameters["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": schema},
            }
        return {name: value for name, value in parameters.items() if name not in left_out}

    def _leave_out(self, error: APIStatusError, sent_without: Sequence[str]) -> bool:
        """Leave out a parameter that the endpoint does not know, from now on; return whether there is one."""
        if error.status_code not in (400, 422) or not _UNKNOWN_PARAMETER.search(str(error)):
            return False
        known_names = {"response_format": ("response_format", "json_schema", "guided", "structured", "schema")}
        for name in ("max_tokens", "max_completion_tokens", "temperature", "response_format"):
            if name in sent_without or not any(word in str(error) for word in known_names.get(name, (name,))):
                continue
            with self._lock:
                if name not in self.left_out:
                    self.left_out.append(name)
            return True
        return False

    def _rejection(self, error: APIStatusError) -> CosightError:
        """Return the error about a request that is not accepted however often it is sent."""
        if error.status_code in (401, 403):  # the endpoint's own message may contain a part of the key
            return InvalidInput(f"the endpoint does not accept the key ({error.status_code}); check {KEY} and {URL}")
        message = self._message(error)
        name = self.settings.name
        if error.status_code == 404:
            hint = f"check the name and {URL}"
            try:
                with _connect(_CHECK_SECONDS) as client:
                    known = [model.id for model in client.models.list()]
                hint = did_you_mean(self.settings.model, known, otherwise=hint)
            except Exception:  # the list only helps with the message
                pass
            return UnknownName(f"the endpoint has no model {self.settings.model!r}: {message}; {hint}")
        if re.search(r"image|vision|multi-?modal|content.*(?:string|type)", message, re.IGNORECASE):
            return RequestFailed(f"{name} does not accept the image: {message}; name a model that takes images")
        return RequestFailed(f"the endpoint does not accept a request to {name} ({error.status_code}): {message}")

    def _message(self, error: APIStatusError) -> str:
        """Return the endpoint's own words about an error."""
        body: Any = error.body
        if isinstance(body, Mapping):
            inner = body.get("error", body)
            body = inner.get("message", inner) if isinstance(inner, Mapping) else inner
        return self._clean(str(body or error.message).strip().split("\n")[0][:200] or type(error).__name__)

    @staticmethod
    def _clean(text: str) -> str:
        """Return a text of the endpoint without the key and the address, and without what UTF-8 cannot store."""
        text = text.encode("utf-8", "replace").decode()
        address = os.environ.get(URL, "").strip()
        secrets = [os.environ.get(KEY, "").strip(), address, re.sub(r"^\w+://|/.*", "", address)]
        for secret in secrets:
            if len(secret) > 3:
                text = text.replace(secret, "***")
        return text

    def _wait_turn(self) -> None:
        """Wait until the rate and `Retry-After` allow a request."""
        while True:
            with self._lock:
                wait = self._next - monotonic()
                if wait <= 0:
                    if self.settings.rate is not None:
                        self._next = monotonic() + 60 / self.settings.rate
                    break
            self._pause(wait)
        if self.stopping.is_set():
            raise Stopped("the run is stopping")

    def _delay(self, retry_after: float | None, failures: int) -> None:
        """Wait before a retry; a time that the endpoint names holds for all requests."""
        if failures > self.settings.retries:
            return
        if retry_after is not None:
            with self._lock:
                self._next = max(self._next, monotonic() + retry_after)
            return
        self._pause(min(self.settings.backoff * 2 ** (failures - 1), _LONGEST_DELAY))

    def _pause(self, seconds: float) -> None:
        if self.stopping.wait(seconds):
            raise Stopped("the run is stopping")


def check_endpoint(spec: ModelSpec) -> None:
    """Raise InvalidInput where the endpoint cannot be reached or its key is missing or wrong. No model is asked."""
    import openai

    check_key(spec)
    settings = read_settings(spec)
    try:
        with _connect(min(settings.timeout, _CHECK_SECONDS)) as client:
            client.models.list()
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise Endpoint(settings)._rejection(error) from None
    except openai.APIStatusError:
        return  # reachable; not every endpoint lists its models
    except openai.APIError as error:
        reason = Endpoint._clean(first_line(error.__cause__ or error))
        raise InvalidInput(
            f"the endpoint of {spec} cannot be reached: {reason}; start the server, or check {URL}"
        ) from None
    except ValueError:
        return


def _connect(timeout: float) -> OpenAI:
    from openai import OpenAI, OpenAIError

    try:
        return OpenAI(api_key=os.environ[KEY].strip(), max_retries=0, timeout=timeout)
    except (OpenAIError, ValueError) as error:
        raise InvalidInput(f"{URL} and {KEY} do not name an endpoint: {Endpoint._clean(first_line(error))}") from None


def _messages(prompt: Prompt, images: Sequence[bytes], detail: str) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = [{"type": "text", "text": prompt.question}]
    for heading, image in zip(prompt.images or ("",) * len(images), images, strict=True):
        if heading:
            content.append({"type": "text", "text": heading})
        url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
        content.append({"type": "image_url", "image_url": {"url": url, "detail": detail}})
    return [{"role": "system", "content": prompt.system}, {"role": "user", "content": content}]


def _code(error: APIStatusError) -> str | None:
    """Return the code of an error; endpoints put it into `code`, `type` or an inner error."""
    code: Any = error.code or (error.body.get("type") if isinstance(error.body, Mapping) else None)
    return None if code is None else str(code)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the endpoint asks to wait, None where it names no time.

    >>> _retry_after({"retry-after": "2"}), _retry_after({"retry-after-ms": "250"}), _retry_after({})
    (2.0, 0.25, None)
    """
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            return max(float(text) * factor, 0.0)
        except ValueError:
            try:
                return max(parsedate_to_datetime(text).timestamp() - time(), 0.0)
            except (TypeError, ValueError):
                continue
    return None
