# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Threads in a SQLite file."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from xr_ai_conversation.graph.stores.base import Channel, Head, Saver, Store, head_of, namespace
from xr_ai_conversation.graph.stores.filelock import FileLock
from xr_ai_conversation.graph.stores.ids import first_id

_LOG = logging.getLogger(__name__)

_SQLITE_HEAD = """SELECT type, checkpoint FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?
    ORDER BY checkpoint_id DESC LIMIT 1"""
_SQLITE_PRUNE = """DELETE FROM {table} WHERE thread_id = :thread AND checkpoint_ns = :namespace
    AND checkpoint_id NOT IN (
    SELECT checkpoint_id FROM checkpoints WHERE thread_id = :thread AND checkpoint_ns = :namespace
    ORDER BY checkpoint_id DESC LIMIT :keep)"""
_SQLITE_IDLE = """SELECT thread_id FROM checkpoints WHERE checkpoint_ns = ''
    GROUP BY thread_id HAVING max(checkpoint_id) < ?"""


class SqliteStore(Store):
    """A SQLite file. What is deleted is overwritten, in the file and in its write-ahead log.

    Several processes may commit to it, one at a time.
    """

    saver: AsyncSqliteSaver

    def __init__(self, saver: AsyncSqliteSaver) -> None:
        super().__init__(saver)
        self._log_holds_forgotten = False
        self._lock: FileLock | None = None

    async def head(self, participant_id: str, channel: Channel = "context") -> Head:
        """Return the newest checkpoint, in one trip to the connection's thread; the saver makes six."""
        await self.saver.setup()
        async with self.saver.lock:
            rows = list(
                await self.saver.conn.execute_fetchall(_SQLITE_HEAD, (participant_id, namespace(channel)))
            )
        if not rows:
            return Head(None, None)
        kind, stored = rows[0]
        return head_of(self.saver.serde.loads_typed((kind, stored)), channel)

    async def prune(self, participant_id: str, keep: int) -> None:
        """Delete all but the newest `keep` checkpoints of a participant's thread, all of them or none."""
        async with self._transaction():
            for found, kept in ((namespace("context"), keep), (namespace("archive"), 1)):
                for table in ("writes", "checkpoints"):
                    await self.saver.conn.execute(
                        _SQLITE_PRUNE.format(table=table),
                        {"thread": participant_id, "namespace": found, "keep": kept},
                    )

    async def forget(self, participant_id: str, saver: Saver) -> None:
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
    async def exclusive(self, participant_id: str) -> AsyncIterator[Saver]:
        """Keep other processes from committing meanwhile.

        It leaves no transaction open that a commit failed to end, and empties the log if that was put off.
        """
        if self._lock is None:
            await self.saver.setup()
            row = await self._row("SELECT file FROM pragma_database_list WHERE name = 'main'")
            self._lock = self._lock or FileLock(f"{row[0]}-lock" if row and row[0] else ":memory:")
        async with self._lock:
            try:
                yield self.saver
            except BaseException:
                async with self.saver.lock:
                    if self.saver.conn.in_transaction:
                        await self.saver.conn.rollback()
                raise
            if self._log_holds_forgotten:
                await self._empty_log()

    def passing(self, error: BaseException) -> bool:
        """Tell whether the file is in use; a disk that is full stays so."""
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

    async def idle(self, since: datetime) -> list[str]:
        """Return the ids of the threads that have no checkpoint since a time."""
        await self.saver.setup()
        async with self.saver.lock:
            rows = await self.saver.conn.execute_fetchall(_SQLITE_IDLE, (first_id(since),))
        return [str(row[0]) for row in rows]

    async def close(self) -> None:
        """Empty the log if that was put off."""
        if self._log_holds_forgotten:
            await self._empty_log()
        if self._lock:
            self._lock.close()
            self._lock = None

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

    async def _row(self, statement: str) -> sqlite3.Row | None:
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


__all__ = ["SqliteStore"]
