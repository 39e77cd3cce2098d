# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The graph behind an Agent Protocol server: two processes on one PostgreSQL, as docs/deployment.md says.

The server is aegra-api, which takes the graph from deploy/graph.py; the model is an endpoint on loopback.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import httpx
import psycopg
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from processes import stored
from psycopg import sql

from xr_ai_conversation import open_saver
from xr_ai_conversation.state.context import Section

_INSTALLED = importlib.util.find_spec("aegra_api") is not None

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not _INSTALLED, reason="the server is not installed: uv sync --group server"),
]

DEPLOY = Path(__file__).parents[1] / "deploy"
DATABASES = ("server", "conversations")
CHECKPOINTS = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
"""What the server's saver keeps of a thread; aegra-api before 0.7 leaves it there when the thread is deleted."""
READY_S, SOON_S = 60, 20
_EARLY = _INSTALLED and importlib.metadata.version("aegra-api").startswith("0.6.")
NOT_OURS = ("AEGRA_", "LANG", "OPENAI_", "OTEL_", "REDIS_", "CONVERSATION_", "POSTGRES_")


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
                opened.wait(READY_S)
        yield request


def handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
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
                    self.wfile.write(completion({"message": message, "finish_reason": "stop"}))
            except ConnectionError:
                pass  # who asked has left

        def event(self, choice: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + completion(choice) + b"\n\n")

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def completion(choice: dict[str, Any]) -> bytes:
    found = {"id": "1", "created": 1, "model": "m", "choices": [{"index": 0, **choice}]}
    return json.dumps(found).encode()


class _Endpoint(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()
    with _Endpoint(("127.0.0.1", 0), handler(found)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_port}/v1"
        yield found
        for opened in found.gates.values():
            opened.set()
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def databases(postgres_server: str) -> Iterator[dict[str, str]]:
    """Two fresh databases: the server's own, and the one for contexts."""
    names = {kind: f"{kind}_{uuid4().hex}" for kind in DATABASES}
    found = {kind: postgres_server.replace("/postgres?", f"/{name}?") for kind, name in names.items()}
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for name in names.values():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        _uuids(found["server"])
        yield found
        for name in names.values():
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _uuids(address: str) -> None:
    """Stand in for the extension uuid-ossp, which aegra-api before 0.7 asks for and the PostgreSQL of tests lacks."""
    if _EARLY:
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION uuid_generate_v4() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()'"
            )
            connection.execute(
                "INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion) "
                "VALUES (1000000, 'uuid-ossp', 10, 'public'::regnamespace, false, '1.1')"
            )


@dataclass
class Served:
    """A server process."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def client(self) -> LangGraphClient:
        return get_client(url=self.url, api_key=None)

    def ready(self) -> None:
        ends = time.monotonic() + READY_S
        while time.monotonic() < ends and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health", trust_env=False).is_success:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        pytest.fail(f"the server did not start:\n{self.log.read_text()[-3_000:]}")


@pytest.fixture(scope="module")
def settings(
    endpoint: Endpoint, databases: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The environment of a server process: nothing in it leads to another machine."""
    graphs = json.loads((DEPLOY / "aegra.json").read_text())["graphs"]
    file, name = graphs["conversation"].split(":")
    config = tmp_path_factory.mktemp("config") / "aegra.json"
    served = {"conversation": f"{DEPLOY / file}:{name}", "whole": f"{DEPLOY / file}:whole"}
    config.write_text(json.dumps({"graphs": served}))
    ours = {key: value for key, value in os.environ.items() if not key.upper().startswith(NOT_OURS)}
    return {
        **ours,
        "AEGRA_CONFIG": str(config),
        "DATABASE_URL": databases["server"],
        "CONVERSATION_DATABASE_URL": databases["conversations"],
        "CONVERSATION_INCREMENTAL_TOPICS": "notes",
        "OPENAI_MODEL": "m",
        "OPENAI_BASE_URL": endpoint.url,
        "AUTH_TYPE": "noop",
        "ENV_MODE": "PRODUCTION",
        "LOG_LEVEL": "WARNING",
        "NO_PROXY": "127.0.0.1",
    }


@contextmanager
def serving(settings: dict[str, str], folder: Path) -> Iterator[Served]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / f"{port}.log"
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "aegra_api.main:app",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=settings, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Served(f"http://127.0.0.1:{port}", process, log)
    finally:
        process.terminate()
        try:
            process.wait(SOON_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def servers(
    settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, Served]]:
    """Two server processes; the first has laid out the databases when the second starts."""
    folder = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:
        first = stack.enter_context(serving(settings, folder))
        first.ready()
        second = stack.enter_context(serving(settings, folder))
        second.ready()
        yield first, second


Clients: TypeAlias = tuple[LangGraphClient, LangGraphClient]


@pytest.fixture
async def clients(servers: tuple[Served, Served]) -> AsyncIterator[Clients]:
    first, second = (server.client for server in servers)
    async with first, second:
        yield first, second


@pytest.fixture(params=["conversation", "whole"])
def graph(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def participant(clients: Clients) -> str:
    found = await clients[0].threads.create(thread_id=f"ann-{uuid4()}")
    return str(found["thread_id"])


async def turn(client: LangGraphClient, thread: str, graph: str, text: str, **options: Any) -> Any:
    return await client.runs.wait(thread, graph, input={"request": text}, **options)


@asynccontextmanager
async def kept(databases: dict[str, str], graph: str) -> AsyncIterator[Any]:
    """Yield a function that returns the stored context of a participant, whichever graph is served."""
    async with open_saver(databases["conversations" if graph == "conversation" else "server"]) as saver:
        yield lambda thread: stored(saver, thread)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SOON_S):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.02)


async def begun(endpoint: Endpoint, request: str) -> None:
    """Return when the model is at work on a request."""

    async def asked() -> bool:
        return request in endpoint.contexts

    await until(asked)


def requests(section: Section) -> list[str]:
    return [str(entry.get("request")) for entry in section["entries"]]


async def test_turns_of_a_participant_alternate_over_both_and_each_sees_all_before(
    clients: Clients, endpoint: Endpoint, databases: dict[str, str], graph: str
) -> None:
    thread = await participant(clients)
    asked = [f"{thread} <{number}>" for number in range(8)]
    for number, text in enumerate(asked):
        assert await turn(clients[number % 2], thread, graph, text) == {"reply": f"re {text}"}
        assert endpoint.contexts[text].count("user>") == number
        assert all(endpoint.contexts[text].count(f"user> {before}") == 1 for before in asked[:number])
    async with kept(databases, graph) as context:
        assert requests((await context(thread))["dialogue"]) == asked


async def test_what_is_compacted_by_one_is_summarised_once_for_both(
    clients: Clients, databases: dict[str, str], graph: str
) -> None:
    thread = await participant(clients)
    for number in range(12):
        await turn(clients[number % 2], thread, graph, f"<{number}> " + "x" * 400)
    async with kept(databases, graph) as context:

        async def summarised() -> bool:
            return bool((await context(thread))["dialogue"]["summary"])

        await until(summarised)
        found = (await context(thread))["dialogue"]
    assert found["summary"]["text"] == "SUMMARY"
    first = found["summary"]["covers"]
    assert [text.split()[0] for text in requests(found)] == [f"<{number}>" for number in range(first, 12)]


async def test_an_update_to_one_is_known_to_the_other(
    clients: Clients, endpoint: Endpoint, graph: str
) -> None:
    thread = await participant(clients)
    await clients[0].runs.wait(thread, graph, input={"topic": "notes", "text": "The pump is off."})
    await turn(clients[1], thread, graph, f"{thread} Which pump?")
    assert "update> The pump is off." in endpoint.contexts[f"{thread} Which pump?"]


async def test_turns_and_updates_at_once_over_both_lose_nothing(
    clients: Clients, databases: dict[str, str]
) -> None:
    thread = await participant(clients)
    turns = [turn(clients[number % 2], thread, "conversation", f"<{number}>") for number in range(20)]
    notes = [
        clients[number % 2].runs.wait(thread, "conversation", input={"topic": "notes", "text": f"[{number}]"})
        for number in range(20)
    ]
    await asyncio.gather(*turns, *notes)
    async with kept(databases, "conversation") as context:
        found = await context(thread)
    assert Counter(requests(found["dialogue"])) == Counter(f"<{number}>" for number in range(20))
    assert Counter(str(entry.get("text")) for entry in found["topics"]["notes"]["entries"]) == Counter(
        f"[{number}]" for number in range(20)
    )


async def test_an_answer_waits_for_no_other(
    clients: Clients, endpoint: Endpoint, databases: dict[str, str]
) -> None:
    thread, gate = await participant(clients), endpoint.gate()
    slow = asyncio.create_task(turn(clients[0], thread, "conversation", gate))
    await begun(endpoint, gate)
    await asyncio.wait_for(turn(clients[1], thread, "conversation", "quick"), SOON_S)
    assert not slow.done()
    endpoint.gates[gate].set()
    await slow
    async with kept(databases, "conversation") as context:
        assert sorted(requests((await context(thread))["dialogue"])) == sorted([gate, "quick"])


@pytest.mark.parametrize("strategy", ["enqueue", "reject"])
async def test_the_server_does_not_queue_runs_so_the_whole_graph_loses_one_that_overlaps(
    clients: Clients, endpoint: Endpoint, databases: dict[str, str], strategy: Any
) -> None:
    thread, gate = await participant(clients), endpoint.gate()
    slow = asyncio.create_task(turn(clients[0], thread, "whole", gate, multitask_strategy=strategy))
    await begun(endpoint, gate)
    answered = turn(clients[1], thread, "whole", "quick", multitask_strategy=strategy)
    assert await asyncio.wait_for(answered, SOON_S) == {"reply": "re quick"}
    endpoint.gates[gate].set()
    await slow
    async with kept(databases, "whole") as context:
        assert requests((await context(thread))["dialogue"]) == [gate]  # a server that queues would keep both


async def test_an_answer_streams_and_one_that_is_left_early_is_not_recorded(
    clients: Clients, endpoint: Endpoint, databases: dict[str, str]
) -> None:
    thread, gate = await participant(clients), endpoint.gate()
    stream = clients[0].runs.stream(
        thread, "conversation", input={"request": "Hello"}, stream_mode="custom", on_disconnect="cancel"
    )
    said: list[Any] = [part.data async for part in stream if part.event == "custom"]
    assert said == ["re ", "Hello"]
    stream = clients[1].runs.stream(
        thread, "conversation", input={"request": gate}, stream_mode="custom", on_disconnect="cancel"
    )
    async for part in stream:
        if part.event == "custom":
            break
    await stream.aclose()  # type: ignore[attr-defined]

    async def ended() -> bool:
        runs = await clients[1].runs.list(thread)
        return all(run["status"] not in ("pending", "running") for run in runs)

    await until(ended)
    endpoint.gates[gate].set()
    await turn(clients[0], thread, "conversation", "Still there?")
    async with kept(databases, "conversation") as context:
        assert requests((await context(thread))["dialogue"]) == ["Hello", "Still there?"]


async def test_what_was_answered_outlives_a_process_that_is_killed(
    clients: Clients, endpoint: Endpoint, settings: dict[str, str], databases: dict[str, str], tmp_path: Path
) -> None:
    thread, gate = await participant(clients), endpoint.gate()
    with serving(settings, tmp_path) as third:
        await asyncio.to_thread(third.ready)
        async with third.client as client, httpx.AsyncClient(timeout=READY_S, trust_env=False) as http:
            await turn(client, thread, "conversation", "<0>")
            body = {"assistant_id": "conversation", "input": {"request": gate}}
            cut = asyncio.create_task(http.post(f"{third.url}/threads/{thread}/runs/wait", json=body))
            await begun(endpoint, gate)
            third.process.send_signal(signal.SIGKILL)
            with pytest.raises(httpx.TransportError):
                await cut
    endpoint.gates[gate].set()
    await turn(clients[0], thread, "conversation", "<1>")
    async with kept(databases, "conversation") as context:
        assert requests((await context(thread))["dialogue"]) == ["<0>", "<1>"]


async def test_who_is_forgotten_and_whose_thread_is_deleted_leaves_nothing(
    clients: Clients, databases: dict[str, str]
) -> None:
    thread = await participant(clients)
    await turn(clients[0], thread, "conversation", "a secret")
    await clients[1].runs.wait(thread, "conversation", input={"forget": True})
    await clients[0].threads.delete(thread)
    async with kept(databases, "conversation") as context:
        assert requests((await context(thread))["dialogue"]) == []
    with psycopg.connect(databases["server"]) as connection:
        for table in ("thread", "runs", *(() if _EARLY else CHECKPOINTS)):
            query = sql.SQL("SELECT count(*) FROM {} WHERE thread_id = %s").format(sql.Identifier(table))
            assert connection.execute(query, (thread,)).fetchone() == (0,)
