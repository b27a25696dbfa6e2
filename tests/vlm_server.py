"""A local server that speaks the OpenAI protocol, as far as images are asked about; it answers as scripted."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep

import numpy as np
from PIL import Image as Pillow

from cosight.stimuli.images import digest

KEY = "sk-test-0123456789abcdefSECRET"


@dataclass
class Asked:
    """One request: its parameters, the texts, and the digests of its images."""

    body: dict
    system: str
    question: str
    stimuli: list[str]

    @property
    def options(self):
        schema = self.body.get("response_format", {}).get("json_schema", {}).get("schema")
        return schema and schema["properties"]["answer"]["enum"]


@dataclass
class Answer:
    """What the server sends: a text, or an error."""

    text: str | None = None
    status: int = 200
    error: dict | str | None = None
    headers: dict = field(default_factory=dict)
    raw: bytes | None = None  # instead of JSON
    seconds: float = 0.0  # before it answers
    cut: bool = False  # close the connection in the middle of the answer
    refusal: str | None = None
    finish: str = "stop"
    tokens: tuple[int, int] = (300, 5)
    model: str = "toy-vlm-2026-01-01"


@dataclass
class Server:
    """The requests so far, and how they are answered: `reply(asked, number)` returns an Answer or a text."""

    reply: Callable
    asked: list[Asked] = field(default_factory=list)
    authorisations: set = field(default_factory=set)
    most_at_once: int = 0
    models: list[str] | None = field(default_factory=lambda: ["toy"])
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def stimuli(self):
        return [stimulus for asked in self.asked for stimulus in asked.stimuli]


def _read(body):
    system, user = (message["content"] for message in body["messages"])
    texts = [part["text"] for part in user if part["type"] == "text"]
    urls = [part["image_url"]["url"] for part in user if part["type"] == "image_url"]
    assert all(url.startswith("data:image/png;base64,") for url in urls)
    images = [Pillow.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) for url in urls]
    return Asked(body, system, texts[0], [digest(np.asarray(image)) for image in images])


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            if server.models is None:
                self._send(404, b'{"error": {"message": "no such page"}}')
                return
            entries = [{"id": name, "object": "model", "created": 0, "owned_by": "me"} for name in server.models]
            self._send(200, json.dumps({"object": "list", "data": entries}).encode())

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = _read(body)
            with server._lock:
                server.authorisations.add(self.headers["Authorization"])
                server.asked.append(asked)
                number = len(server.asked)
                server._now += 1
                server.most_at_once = max(server.most_at_once, server._now)
            try:
                answer = server.reply(asked, number)
                answer = answer if isinstance(answer, Answer) else Answer(answer)
                sleep(answer.seconds)
            finally:
                with server._lock:
                    server._now -= 1
            self._answer(answer)

        def _answer(self, answer):
            if answer.error is not None:
                error = {"message": answer.error} if isinstance(answer.error, str) else answer.error
                self._send(answer.status, json.dumps({"error": error}).encode(), answer.headers)
                return
            message = {"role": "assistant", "content": answer.text, "refusal": answer.refusal}
            usage = {"prompt_tokens": answer.tokens[0], "completion_tokens": answer.tokens[1], "total_tokens": 0}
            choice = {"index": 0, "finish_reason": answer.finish, "message": message, "logprobs": None}
            content = {"id": "1", "object": "chat.completion", "created": 0, "model": answer.model}
            data = json.dumps({**content, "choices": [choice], "usage": usage}).encode()
            if answer.cut:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
                return
            self._send(answer.status, answer.raw if answer.raw is not None else data, answer.headers)

        def _send(self, status, data, headers=None):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):  # who asked has gone
                self.close_connection = True

    return Handler


@contextmanager
def serving(reply, patch=None, **settings):
    """A served `Server`; with `patch` (a MonkeyPatch), the environment names it and its key."""
    server = Server(reply, **settings)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}/v1"
    if patch is not None:
        patch.setenv("OPENAI_BASE_URL", server.url)
        patch.setenv("OPENAI_API_KEY", KEY)
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
