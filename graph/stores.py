# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a LangGraph saver must do for us beyond its contract: order, exclusion, pruning and forgetting."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

if TYPE_CHECKING:
    from sqlite3 import Row

    from psycopg import AsyncConnection
    from psycopg.rows import TupleRow
    from psycopg_pool import AsyncConnectionPool

_LOG = logging.getLogger(__name__)

Saver = BaseCheckpointSaver[Any]  # Any: savers differ in the type of their versions, which nothing here reads


def thread(participant_id: str) -> RunnableConfig:
    """Return the config of a participant's thread; the thread id is the participant id, and nothing else is."""
    return {"configurable": {"thread_id": participant_id, "checkpoint_ns": ""}}


@dataclass(frozen=True, slots=True)
class Head:
    """The newest checkpoint of a thread."""

    context: object
    """The stored context, unchecked; None if there is none."""
    checkpoint_id: str | None
    """None if the thread does not exist."""


class Store:
    """A saver of any kind: what every saver can do. Its threads are not pruned."""

    def __init__(self, saver: Saver) -> None:
        self.saver = saver

    async def head(self, participant_id: str) -> Head:
        """Return the newest checkpoint of a participant's thread."""
        found = await self.saver.aget_tuple(thread(participant_id))
        if found is None:
            return Head(None, None)
        return Head(found.checkpoint["channel_values"].get("context"), found.checkpoint["id"])

    @asynccontextmanager
    async def exclusive(self, participant_id: str) -> AsyncIterator[None]:
        """Keep other processes from committing to a participant's thread, where the saver has several."""
        yield

    async def prune(self, participant_id: str, keep: int) -> None:
        """Delete all but the newest `keep` checkpoints of a participant's thread."""

    async def forget(self, participant_id: str) -> None:
        """Delete a participant's thread, so that no byte of it is left."""
        await self.saver.adelete_thread(participant_id)

    async def close(self) -> None:
        """Release what was opened here; the saver itself is its owner's."""


class MemoryStore(Store):
    """Threads in memory: they are looked up without being made, and deleted without searching all others."""

    saver: InMemorySaver

    async def head(self, participant_id: str) -> Head:
        """Return the newest checkpoint of a participant's thread."""
        return (
            await super().head(participant_id) if participant_id in self.saver.storage else Head(None, None)
        )

    async def prune(self, participant_id: str, keep: int) -> None:
        """Delete all but the newest `keep` checkpoints of a participant's thread, and what only they hold."""
        for namespace, checkpoints in list(self.saver.storage.get(participant_id, {}).items()):
            ids = sorted(checkpoints, reverse=True)
            kept = self._blobs(participant_id, namespace, ids[:keep])
            for blob in self._blobs(participant_id, namespace, ids[keep:]) - kept:
                self.saver.blobs.pop(blob, None)
            for checkpoint_id in ids[keep:]:
                del checkpoints[checkpoint_id]
                self.saver.writes.pop((participant_id, namespace, checkpoint_id), None)

    async def forget(self, participant_id: str) -> None:
        """Delete a participant's thread."""
        await self.prune(participant_id, 0)
        self.saver.storage.pop(participant_id, None)

    def _blobs(
        self, participant_id: str, namespace: str, ids: list[str]
    ) -> set[tuple[str, str, str, str | int | float]]:
        checkpoints = self.saver.storage[participant_id][namespace]
        return {
            (participant_id, namespace, channel, version)
            for checkpoint_id in ids
            for channel, version in self.saver.serde.loads_typed(checkpoints[checkpoint_id][0])[
                "channel_versions"
            ].items()
        }


_SQLITE_HEAD = """SELECT type, checkpoint, checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''
    ORDER BY checkpoint_id DESC LIMIT 1"""
_SQLITE_PRUNE = """DELETE FROM {table} WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id NOT IN (
    SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ''
    ORDER BY checkpoint_id DESC LIMIT ?)"""


class SqliteStore(Store):
    """A SQLite file. What is deleted is overwritten, in the file and in its write-ahead log."""

    saver: AsyncSqliteSaver

    def __init__(self, saver: AsyncSqliteSaver) -> None:
        super().__init__(saver)
        self._log_holds_forgotten = False

    async def head(self, participant_id: str) -> Head:
        """Return the newest checkpoint, in one trip to the connection's thread; the saver makes six."""
        await self.saver.setup()
        async with self.saver.lock:
            rows = list(await self.saver.conn.execute_fetchall(_SQLITE_HEAD, (participant_id,)))
        if not rows:
            return Head(None, None)
        kind, stored, checkpoint_id = rows[0]
        checkpoint = self.saver.serde.loads_typed((kind, stored))
        return Head(checkpoint["channel_values"].get("context"), checkpoint_id)

    async def prune(self, participant_id: str, keep: int) -> None:
        """Delete all but the newest `keep` checkpoints of a participant's thread, all of them or none."""
        async with self._transaction():
            for table in ("writes", "checkpoints"):
                await self.saver.conn.execute(
                    _SQLITE_PRUNE.format(table=table), (participant_id, participant_id, keep)
                )

    async def forget(self, participant_id: str) -> None:
        """Delete a participant's thread, and empty the write-ahead log of it."""
        async with self._transaction():
            for table in ("writes", "checkpoints"):
                await self.saver.conn.execute(f"DELETE FROM {table} WHERE thread_id = ?", (participant_id,))
        await self._empty_log()
        if self._log_holds_forgotten:
            _LOG.warning(
                "the write-ahead log is being read, and will be emptied of a forgotten participant later"
            )

    @asynccontextmanager
    async def exclusive(self, participant_id: str) -> AsyncIterator[None]:
        """Leave no transaction open that a commit failed to end, and empty the log if that was put off."""
        try:
            yield
        except BaseException:
            async with self.saver.lock:
                if self.saver.conn.in_transaction:
                    await self.saver.conn.rollback()
            raise
        if self._log_holds_forgotten:
            await self._empty_log()

    async def close(self) -> None:
        """Empty the log if that was put off."""
        if self._log_holds_forgotten:
            await self._empty_log()

    async def _empty_log(self) -> None:
        """Move the write-ahead log into the file and cut it to nothing, unless somebody is reading it now."""
        async with self.saver.lock:
            (timeout,) = (await self._row("PRAGMA busy_timeout")) or (0,)
            await self._row("PRAGMA busy_timeout = 0")  # all other participants wait while this does
            try:
                row = await self._row("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                await self._row(f"PRAGMA busy_timeout = {timeout}")
        self._log_holds_forgotten = bool(row and row[0])

    async def _row(self, statement: str) -> Row | None:
        async with self.saver.conn.execute(statement) as cursor:
            return await cursor.fetchone()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        await self.saver.setup()
        async with self.saver.lock:
            await self.saver.conn.execute("PRAGMA secure_delete = ON")
            try:
                yield
                await self.saver.conn.commit()
            except BaseException:
                await self.saver.conn.rollback()
                raise


_POSTGRES_PRUNE = (
    """DELETE FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND checkpoint_id NOT IN (
        SELECT checkpoint_id FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns = ''
        ORDER BY checkpoint_id DESC LIMIT %(keep)s)""",
    """DELETE FROM checkpoint_writes w WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND NOT EXISTS (
        SELECT 1 FROM checkpoints c WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = ''
        AND c.checkpoint_id = w.checkpoint_id)""",
    """DELETE FROM checkpoint_blobs b WHERE thread_id = %(thread)s AND checkpoint_ns = '' AND NOT EXISTS (
        SELECT 1 FROM checkpoints c WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = ''
        AND c.checkpoint->'channel_versions'->>b.channel = b.version)""",
)


class PostgresStore(Store):
    """A PostgreSQL database that several processes may serve.

    A commit takes an advisory lock of the participant. Its connection is of a pool of our own: taken from the
    saver's, the waiting could use up all of them, and then the holder could not commit.
    """

    def __init__(self, saver: Saver) -> None:
        super().__init__(saver)
        self._pool: AsyncConnectionPool[AsyncConnection[TupleRow]] | None = None

    @asynccontextmanager
    async def exclusive(self, participant_id: str) -> AsyncIterator[None]:
        """Keep other processes from committing to a participant's thread meanwhile."""
        async with self._locked(participant_id):
            yield

    async def prune(self, participant_id: str, keep: int) -> None:
        """Delete all but the newest `keep` checkpoints of a participant's thread, and what only they hold."""
        async with self._locked(participant_id) as connection:
            for statement in _POSTGRES_PRUNE:
                await connection.execute(statement, {"thread": participant_id, "keep": keep})

    async def close(self) -> None:
        """Close our own connections."""
        if self._pool:
            await self._pool.close()
            self._pool = None

    @asynccontextmanager
    async def _locked(self, participant_id: str) -> AsyncIterator[AsyncConnection[TupleRow]]:
        if self._pool is None:
            self._pool = _own_pool(self.saver)
            await self._pool.open()
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (participant_id,)
            )
            yield connection


def _own_pool(saver: Any) -> AsyncConnectionPool[AsyncConnection[TupleRow]]:  # Any: the package is optional
    from psycopg.conninfo import make_conninfo
    from psycopg_pool import AsyncConnectionPool

    connection, check = saver.conn, AsyncConnectionPool.check_connection
    if isinstance(connection, AsyncConnectionPool):
        return AsyncConnectionPool(
            connection.conninfo, kwargs=connection.kwargs, min_size=0, max_size=4, open=False
        )
    info = connection.info
    conninfo = make_conninfo(info.dsn, password=info.password) if info.password else info.dsn
    return AsyncConnectionPool(conninfo, min_size=0, max_size=8, check=check, open=False)


_LAST_ID_TIME = "_last_v6_timestamp"


def store_of(saver: Saver) -> Store:
    """Return the store of a saver's kind.

    Raises:
        TypeError: The saver has no asynchronous methods.
    """
    kind = type(saver)
    if kind.aget_tuple is BaseCheckpointSaver.aget_tuple or kind.__name__ == "SqliteSaver":
        raise TypeError(f"checkpointer must be asynchronous, such as AsyncSqliteSaver, got {kind.__name__}")
    if isinstance(saver, InMemorySaver):
        return MemoryStore(saver)
    if isinstance(saver, AsyncSqliteSaver):
        return SqliteStore(saver)
    if kind.__module__.startswith("langgraph.checkpoint.postgres"):
        return PostgresStore(saver)
    return Store(saver)


def sort_after(head: Head) -> None:
    """See to it that the next checkpoint of this process sorts after a head.

    Checkpoints are ordered by the clock of their writer: one that is written by a host whose clock is behind is
    never read again. The ids of a process count on from the last one, so it is enough to raise that; LangGraph
    has no public way to do it.
    """
    if head.checkpoint_id:
        last = getattr(checkpoint_ids, _LAST_ID_TIME) or 0
        setattr(checkpoint_ids, _LAST_ID_TIME, max(last, _v6_time(head.checkpoint_id)))


def _v6_time(checkpoint_id: str) -> int:
    """Return the time field of a version 6 UUID, which the standard library of Python 3.11 reads as version 1."""
    number = UUID(checkpoint_id).int
    return ((number >> 80) << 12) | ((number >> 64) & 0x0FFF)


__all__ = [
    "Head",
    "MemoryStore",
    "PostgresStore",
    "Saver",
    "SqliteStore",
    "Store",
    "sort_after",
    "store_of",
    "thread",
]
