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
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import httpx
import psycopg
import pytest
from fakes.endpoint import Endpoint
from langgraph_sdk.client import LangGraphClient
from processes import stored
from psycopg import sql
from served import READY_S, SOON_S, Served, environment, serving, until

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
_EARLY = _INSTALLED and importlib.metadata.version("aegra-api").startswith("0.6.")
SERVER = ("uvicorn", "aegra_api.main:app")


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
    return environment(
        AEGRA_CONFIG=str(config),
        DATABASE_URL=databases["server"],
        CONVERSATION_DATABASE_URL=databases["conversations"],
        CONVERSATION_INCREMENTAL_TOPICS="notes",
        OPENAI_MODEL="m",
        OPENAI_BASE_URL=endpoint.url,
        AUTH_TYPE="noop",
        ENV_MODE="PRODUCTION",
        LOG_LEVEL="WARNING",
    )


@pytest.fixture(scope="module")
def servers(
    settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, Served]]:
    """Two server processes; the first has laid out the databases when the second starts."""
    folder = tmp_path_factory.mktemp("servers")
    with ExitStack() as stack:
        first = stack.enter_context(serving(SERVER, settings, folder))
        first.ready()
        second = stack.enter_context(serving(SERVER, settings, folder))
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
    """Return the reply to a request."""
    found = await client.runs.wait(thread, graph, input={"request": text}, **options)
    return found["reply"]  # type: ignore[call-overload]


@asynccontextmanager
async def kept(databases: dict[str, str], graph: str) -> AsyncIterator[Any]:
    """Yield a function that returns the stored context of a participant, whichever graph is served."""
    async with open_saver(databases["conversations" if graph == "conversation" else "server"]) as saver:
        yield lambda thread: stored(saver, thread)


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
        assert await turn(clients[number % 2], thread, graph, text) == f"re {text}"
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
    assert await asyncio.wait_for(answered, SOON_S) == "re quick"
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
    with serving(SERVER, settings, tmp_path) as third:
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
