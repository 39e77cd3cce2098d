# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Threads in a PostgreSQL database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from xr_ai_conversation.graph.stores.base import Saver, Store, namespace
from xr_ai_conversation.graph.stores.ids import first_id

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.rows import TupleRow
    from psycopg_pool import AsyncConnectionPool

    _Pool: TypeAlias = AsyncConnectionPool[AsyncConnection[TupleRow]]

_CONNECTIONS = 8
_TIMEOUT_S = 5.0

_POSTGRES_IDLE = """SELECT thread_id FROM checkpoints WHERE checkpoint_ns = ''
    GROUP BY thread_id HAVING max(checkpoint_id) < %s"""
_POSTGRES_PRUNE = (
    """DELETE FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns = %(namespace)s AND checkpoint_id NOT IN (
        SELECT checkpoint_id FROM checkpoints WHERE thread_id = %(thread)s AND checkpoint_ns = %(namespace)s
        ORDER BY checkpoint_id DESC LIMIT %(keep)s)""",
    """DELETE FROM checkpoint_writes w WHERE thread_id = %(thread)s AND checkpoint_ns = %(namespace)s AND NOT EXISTS (
        SELECT 1 FROM checkpoints c WHERE c.thread_id = w.thread_id AND c.checkpoint_ns = %(namespace)s
        AND c.checkpoint_id = w.checkpoint_id)""",
    """DELETE FROM checkpoint_blobs b WHERE thread_id = %(thread)s AND checkpoint_ns = %(namespace)s AND NOT EXISTS (
        SELECT 1 FROM checkpoints c WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = %(namespace)s
        AND c.checkpoint->'channel_versions'->>b.channel = b.version)""",
)


class PostgresStore(Store):
    """A PostgreSQL database that several processes may serve.

    A commit takes an advisory lock of the participant, a compaction one of the section. Their connections are of
    pools of our own: taken from the saver's, the waiting could use up all of them, and then the holder could not
    commit. A lock ends with its connection.
    """

    def __init__(self, saver: Saver) -> None:
        super().__init__(saver)
        self._pool: _Pool | None = None
        self._turns = asyncio.Semaphore(_CONNECTIONS)
        """Lets commits wait for their turn as long as it takes: only a server that is away is an error."""
        self._compactions: _Pool | None = None

    @asynccontextmanager
    async def exclusive(self, participant_id: str) -> AsyncIterator[Saver]:
        """Keep other processes from committing to a participant's thread meanwhile.

        What is written with the saver that it yields is of the transaction that holds the lock: if its connection is
        lost, so is the write, and nobody overwrites what another process has committed since.
        """
        async with self._locked(participant_id) as connection:
            bound: Any = copy(self.saver)
            bound.conn, bound.pipe, bound.lock = connection, None, asyncio.Lock()
            yield bound

    async def prune(self, participant_id: str, keep: int) -> None:
        """Delete all but the newest `keep` checkpoints of a participant's thread, and what only they hold."""
        async with self._locked(participant_id) as connection:
            for found, kept in ((namespace("context"), keep), (namespace("archive"), 1)):
                for statement in _POSTGRES_PRUNE:
                    await connection.execute(
                        statement, {"thread": participant_id, "namespace": found, "keep": kept}
                    )

    @asynccontextmanager
    async def compacting(self, participant_id: str, topic: str | None) -> AsyncIterator[None]:
        """Keep other processes from asking for a summary of the same section meanwhile."""
        if self._compactions is None:
            self._compactions = _own_pool(self.saver)
            await self._compactions.open()
        async with self._compactions.connection() as connection:
            await connection.execute(
                "SELECT pg_advisory_lock(hashtextextended(%s, 1))", (json.dumps([participant_id, topic]),)
            )
            yield

    def passing(self, error: BaseException) -> bool:
        """Tell whether the connection was lost or none was to be had."""
        from psycopg import InterfaceError, OperationalError

        return isinstance(error, InterfaceError | OperationalError)

    async def idle(self, since: datetime) -> list[str]:
        """Return the ids of the threads that have no checkpoint since a time."""
        from psycopg.rows import tuple_row

        async with self._locked("") as connection, connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_POSTGRES_IDLE, (first_id(since),))
            return [str(row[0]) for row in await cursor.fetchall()]

    async def close(self) -> None:
        """Close our own connections."""
        pools, self._pool, self._compactions = (self._pool, self._compactions), None, None
        for pool in pools:
            if pool:
                await pool.close()

    @asynccontextmanager
    async def _locked(self, participant_id: str) -> AsyncIterator[AsyncConnection[TupleRow]]:
        if self._pool is None:
            self._pool = _own_pool(self.saver)
            self._turns = asyncio.Semaphore(_CONNECTIONS)  # of the event loop that the pool is of
            await self._pool.open()
        async with self._turns, self._pool.connection() as connection, connection.transaction():
            await connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (participant_id,)
            )
            yield connection


def _own_pool(saver: Any) -> _Pool:  # Any: the package is optional
    from psycopg.conninfo import make_conninfo
    from psycopg_pool import AsyncConnectionPool

    found = saver.conn
    if isinstance(found, AsyncConnectionPool):
        conninfo, options = found.conninfo, found.kwargs if isinstance(found.kwargs, dict) else {}
    else:
        conninfo, options = found.info.dsn, {}
        if found.info.password:
            conninfo = make_conninfo(conninfo, password=found.info.password)
    return AsyncConnectionPool(
        conninfo,
        kwargs={**options, "autocommit": True},
        min_size=0,
        max_size=_CONNECTIONS,
        timeout=_TIMEOUT_S,
        check=AsyncConnectionPool.check_connection,
        configure=_see_what_is_committed,
        reset=_unlock,
        open=False,
    )


async def _see_what_is_committed(connection: AsyncConnection[TupleRow]) -> None:
    """Let a statement that follows a lock see what the holder before has written, whatever the server's default is."""
    from psycopg import IsolationLevel

    await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)


async def _unlock(connection: AsyncConnection[TupleRow]) -> None:
    """Give up what a connection still holds when it comes back to its pool."""
    await connection.execute("SELECT pg_advisory_unlock_all()")


__all__ = ["PostgresStore"]
