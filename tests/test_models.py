# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Endpoints are found from arguments and the environment, and their errors are put in words."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from xr_ai_conversation.models import (
    ContextTooSmallError,
    EmbeddedModel,
    EmbeddedModelError,
    explain,
    openai_model,
)

SAID = "my secret plan"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "BASE_URL", "API_BASE", "MODEL", "PROXY", "ORG_ID", "ORGANIZATION"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class _Endpoint(BaseHTTPRequestHandler):
    """Answers every request with one status and body, and keeps what it was sent."""

    status: ClassVar[int]
    body: ClassVar[dict[str, object]]
    seen: ClassVar[list[tuple[str, str, str]]]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.append((self.path, self.headers["authorization"], request["model"]))
        self.send_response(self.status)
        self.send_header("content-type", "application/json")
        self.send_header("x-should-retry", "false")
        self.end_headers()
        self.wfile.write(json.dumps(self.body).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def endpoint(status: int, body: dict[str, object]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    seen: list[tuple[str, str, str]] = []
    handler = type("Handler", (_Endpoint,), {"status": status, "body": body, "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", seen
        finally:
            server.shutdown()
            thread.join()


REPLY: dict[str, object] = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "served",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}},
    ],
}


def test_arguments_name_the_endpoint() -> None:
    with endpoint(200, REPLY) as (url, seen):
        reply = openai_model("served", base_url=url, api_key="given").invoke("Hi")
    assert reply.content == "Hello."
    assert reply.response_metadata["finish_reason"] == "stop"
    assert seen == [("/v1/chat/completions", "Bearer given", "served")]


def test_the_environment_names_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(200, REPLY) as (url, seen):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "from the environment")
        monkeypatch.setenv("OPENAI_MODEL", "served")
        openai_model().invoke("Hi")
    assert seen == [("/v1/chat/completions", "Bearer from the environment", "served")]


def test_arguments_go_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_MODEL", "other")
    with endpoint(200, REPLY) as (url, seen):
        openai_model("served", base_url=url).invoke("Hi")
    assert [model for _, _, model in seen] == ["served"]


def test_a_server_of_ones_own_needs_no_key() -> None:
    with endpoint(200, REPLY) as (url, seen):
        openai_model("served", base_url=url).invoke("Hi")
    assert [key for _, key, _ in seen] == ["Bearer none"]


def test_what_is_not_configured_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="set OPENAI_MODEL"):
        openai_model()
    monkeypatch.setenv("OPENAI_MODEL", "served")
    with pytest.raises(ValueError, match="set OPENAI_API_KEY"):
        openai_model()


@pytest.mark.parametrize(
    ("status", "error", "advice"),
    [
        (401, {"message": "bad key"}, "OPENAI_API_KEY"),
        (403, {"message": "not yours"}, "OPENAI_API_KEY"),
        (404, {"message": "no such model"}, "model's name"),
        (429, {"message": "slow down"}, "wait"),
        (503, {"message": "loading"}, "HTTP status 503"),
        (400, {"message": "too long", "code": "context_length_exceeded"}, "smaller budgets"),
        (400, {"message": "too long", "type": "exceed_context_size_error"}, "smaller budgets"),
        (400, {"message": "This model's maximum context length is 10 tokens"}, "smaller budgets"),
        (500, {"message": "the request exceeds the available context size"}, "smaller budgets"),
    ],
)
def test_a_refusal_is_explained_without_what_was_said(
    status: int, error: dict[str, str], advice: str
) -> None:
    body: dict[str, object] = {"error": {**error, "param": SAID}}
    with endpoint(status, body) as (url, _), pytest.raises(Exception) as raised:
        openai_model("served", base_url=url).invoke(SAID)
    sentence = explain(raised.value)
    assert sentence is not None
    assert advice in sentence
    assert SAID not in sentence


def test_a_server_that_does_not_run_is_explained() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        model = openai_model("served", base_url=f"http://127.0.0.1:{unused.getsockname()[1]}/v1")
        with pytest.raises(Exception) as raised:
            model.invoke(SAID)
    sentence = explain(raised.value)
    assert sentence is not None
    assert "cannot be reached" in sentence


def test_errors_are_explained_through_what_they_were_raised_from() -> None:
    timeout = RuntimeError("outer")
    timeout.__cause__ = TimeoutError()
    assert "in time" in (explain(timeout) or "")
    group = ExceptionGroup("several", [ValueError("inner"), ContextTooSmallError(9_000, 8_192)])
    assert explain(group) == str(ContextTooSmallError(9_000, 8_192))
    assert "9,000" in str(ContextTooSmallError(9_000, 8_192))


def test_unknown_errors_are_not_explained() -> None:
    assert explain(ValueError("anything")) is None


def test_the_embedded_model_says_that_it_is_not_running() -> None:
    model = EmbeddedModel()
    model.close()
    with pytest.raises(EmbeddedModelError, match="not running"):
        _ = model.answers
    with pytest.raises(ValueError, match="threads must be at least 1, not 0"):
        EmbeddedModel(threads=0)


def test_the_runtime_is_loaded_only_when_it_is_started() -> None:
    code = "import sys, xr_ai_conversation.models; sys.exit('xllamacpp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_base_url_without_a_scheme_is_refused() -> None:
    with pytest.raises(
        ValueError, match="base_url must begin with http:// or https://, got 'localhost:8000/v1'"
    ):
        openai_model("m", base_url="localhost:8000/v1")
