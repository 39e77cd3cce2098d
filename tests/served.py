# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Servers in processes of their own, on loopback, whose environment leads to no other machine."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

CLONE = Path(__file__).parents[1]
STUDIO = [
    pytest.mark.studio,
    pytest.mark.skipif(
        importlib.util.find_spec("langgraph_api") is None,
        reason="the server is not installed: uv sync --group studio",
    ),
]
"""The marks of what needs the server of LangGraph Studio."""
READY_S, SOON_S = 60, 20
NOT_OURS = ("AEGRA_", "LANG", "OPENAI_", "OTEL_", "REDIS_", "CONVERSATION_", "POSTGRES_")


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of a server: without what the person who runs the tests has set for others."""
    kept = {key: value for key, value in os.environ.items() if not key.upper().startswith(NOT_OURS)}
    return {**kept, "NO_PROXY": "127.0.0.1", **settings}


@dataclass
class Served:
    """A server process."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    health: str

    @property
    def client(self) -> LangGraphClient:
        return get_client(url=self.url, api_key=None)

    def ready(self) -> None:
        """Return when it answers."""
        ends = time.monotonic() + READY_S
        while time.monotonic() < ends and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}{self.health}", trust_env=False).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        pytest.fail(f"the server did not start:\n{self.log.read_text()[-3_000:]}")


@contextmanager
def serving(
    module: Sequence[str], settings: Mapping[str, str], folder: Path, health: str = "/health"
) -> Iterator[Served]:
    """Run a module of Python as a server.

    Args:
        module: Its name and arguments; host and port are added.
        settings: The whole environment.
        folder: Where it runs, and leaves its log.
        health: A path that is there when it is ready.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / f"{port}.log"
    command = [sys.executable, "-m", *module, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=settings, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Served(f"http://127.0.0.1:{port}", process, log, health)
    finally:
        process.terminate()
        try:
            process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def serving_studio(folder: Path, **settings: str) -> Iterator[Served]:
    """Run `langgraph dev`, as the README says, on the graphs that langgraph.json names, until it is ready.

    Args:
        folder: Where it runs, and keeps what was said.
        settings: Of its environment; without OPENAI_MODEL it runs on the embedded model.
    """
    config = json.loads((CLONE / "langgraph.json").read_text())
    config["dependencies"] = [str(CLONE)]
    config["graphs"] = {name: str(CLONE / path) for name, path in config["graphs"].items()}
    (folder / "langgraph.json").write_text(json.dumps(config))
    command = ("langgraph_cli", "dev", "--no-browser", "--no-reload")
    environ = environment(LANGGRAPH_CLI_NO_ANALYTICS="1", **settings)
    with serving(command, environ, folder, health="/ok") as found:
        found.ready()
        yield found


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return when something holds."""
    async with asyncio.timeout(SOON_S):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


__all__ = ["READY_S", "SOON_S", "STUDIO", "Served", "environment", "serving", "serving_studio", "until"]
