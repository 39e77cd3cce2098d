# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Savers of which one call fails: each call to the saver in memory, each trip to a SQLite file or to PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from xr_ai_conversation.graph.stores import Saver

Fault: TypeAlias = Literal["refused", "answer lost", "in use", "cut off", "held", "caller cancelled"]
"""What becomes of a call: it raises before or after it is done, either for good or with an error that passes; it is
cancelled from within; or it is held until it is released, and done then."""


class Faults:
    """Lets all calls of a saver through, but for one.

    Args:
        saver: Its calls.
        patch: Puts everything back afterwards.
    """

    def __init__(self, saver: Saver, patch: pytest.MonkeyPatch) -> None:
        self._at: int | None = None
        self._fault: Fault = "refused"
        self._calls = 0
        self._trips = False
        """Connections are lost, and calls held, on the way to a server; else it is the saver whose calls fail."""
        self.reached = asyncio.Event()
        """Set when the call has come of which the fault is."""
        self.release = asyncio.Event()
        """Lets the call go on if it is held."""
        if isinstance(saver, AsyncSqliteSaver):
            patch.setattr(saver.conn, "_execute", self._call(saver.conn._execute, _of_sqlite))
            return
        for name in ("aget_tuple", "aput", "aput_writes", "adelete_thread"):
            patch.setattr(saver, name, self._call(getattr(saver, name), _of_the_system))
        if not isinstance(saver, InMemorySaver):
            patch.setattr(psycopg.AsyncConnection, "wait", self._trip(psycopg.AsyncConnection.wait))

    def arm(self, at: int | None, fault: Fault = "refused") -> None:
        """Say which of the calls from now on, counted from zero, fails, and how."""
        self._at, self._fault, self._calls = at, fault, 0
        self.reached.clear()
        self.release.clear()

    def _call(self, method: Any, error: Callable[[bool], Exception]) -> Any:
        async def call(*args: Any, **given: Any) -> Any:
            if not self._is_it(on_a_trip=False):
                return await method(*args, **given)
            match self._fault:
                case "refused" | "in use":
                    raise error(self._fault == "in use")
                case "answer lost":
                    await method(*args, **given)
                    raise error(True)
                case "cut off":
                    raise asyncio.CancelledError
                case "held" | "caller cancelled":
                    await self.release.wait()
                    return await method(*args, **given)

        return call

    def _trip(self, wait: Any) -> Any:
        """Return a trip to a server, whose connection may be lost before or after it."""

        async def trip(connection: psycopg.AsyncConnection[Any], *args: Any, **given: Any) -> Any:
            if not self._is_it(on_a_trip=True):
                return await wait(connection, *args, **given)
            if self._fault == "in use":
                connection.pgconn.finish()
            elif self._fault != "answer lost":
                await self.release.wait()
            done = await wait(connection, *args, **given)
            if self._fault == "answer lost":
                connection.pgconn.finish()
                raise psycopg.OperationalError("the connection is lost")
            return done

        self._trips = True
        return trip

    def _is_it(self, *, on_a_trip: bool) -> bool:
        """Count a call, if calls of its kind may meet the fault, and tell whether it is the one."""
        if self._trips and on_a_trip is (self._fault in ("refused", "cut off")):
            return False
        self._calls += 1
        if self._calls - 1 != self._at:
            return False
        self.reached.set()
        return True


def _of_sqlite(passing: bool) -> Exception:
    error = sqlite3.OperationalError("database is locked" if passing else "disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY if passing else sqlite3.SQLITE_IOERR
    return error


def _of_the_system(passing: bool) -> Exception:
    return OSError("the store is away")


__all__ = ["Fault", "Faults"]
