# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""An OpenAI-compatible endpoint on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

_GATE_S = 60
"""After so long a gate gives way, so that a test that fails ends."""


@dataclass
class Endpoint:
    """An OpenAI-compatible endpoint that answers "re " and the request; a request that names a gate waits at it."""

    url: str = ""
    contexts: dict[str, str] = field(default_factory=dict)
    """The context that each request came with."""
    gates: dict[str, threading.Event] = field(default_factory=dict)

    def gate(self) -> str:
        """Return the name of a new gate: the answer to a request with it begins, and goes on when it is set."""
        name = f"gate-{uuid4().hex}"
        self.gates[name] = threading.Event()
        return name

    def pieces(self, messages: list[dict[str, str]]) -> Iterator[str]:
        request = messages[-1]["content"]
        if "End of the text." in request:
            yield "SUMMARY"
            return
        self.contexts[request] = messages[1]["content"]
        yield "re "
        for name, opened in list(self.gates.items()):
            if name in request:
                opened.wait(_GATE_S)
        yield request


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            try:
                if asked.get("stream"):
                    self.send_header("content-type", "text/event-stream")
                    self.end_headers()
                    for piece in endpoint.pieces(asked["messages"]):
                        self.event({"delta": {"content": piece}, "finish_reason": None})
                    self.event({"delta": {}, "finish_reason": "stop"})
                    self.wfile.write(b"data: [DONE]\n\n")
                else:
                    self.send_header("content-type", "application/json")
                    self.end_headers()
                    message = {"role": "assistant", "content": "".join(endpoint.pieces(asked["messages"]))}
                    self.wfile.write(_completion({"message": message, "finish_reason": "stop"}))
            except ConnectionError:
                pass  # who asked has left

        def event(self, choice: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + _completion(choice) + b"\n\n")

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _completion(choice: dict[str, Any]) -> bytes:
    found = {"id": "1", "created": 1, "model": "m", "choices": [{"index": 0, **choice}]}
    return json.dumps(found).encode()


class _Endpoint(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def serving_endpoint() -> Iterator[Endpoint]:
    """Serve an endpoint; what waits at a gate goes on in the end."""
    found = Endpoint()
    with _Endpoint(("127.0.0.1", 0), _handler(found)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_port}/v1"
        yield found
        for opened in found.gates.values():
            opened.set()
        server.shutdown()
        thread.join()


__all__ = ["Endpoint", "serving_endpoint"]
