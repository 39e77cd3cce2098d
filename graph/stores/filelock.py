# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A lock between processes."""

from __future__ import annotations

import asyncio
import sqlite3

from xr_ai_conversation.graph.tasks import ended

_TIMEOUT_S = 30.0


class FileLock:
    """Held by one of several processes: an open transaction on a file of its own, which ends with its process.

    Args:
        path: Of the file, which is made if it is not there and stays empty; ":memory:" keeps out nobody.
    """

    def __init__(self, path: str) -> None:
        self._turn = asyncio.Lock()
        self._connection = sqlite3.connect(
            path, timeout=_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )

    async def __aenter__(self) -> None:
        await self._turn.acquire()
        # no task, which the end of an event loop would cancel: what the thread has taken must be given up
        taken = asyncio.get_running_loop().run_in_executor(None, self._connection.execute, "BEGIN IMMEDIATE")
        try:
            await ended((taken,))
            taken.result()
        except BaseException:
            if taken.exception() is None:
                self._connection.execute("ROLLBACK")
            self._turn.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        try:
            self._connection.execute("ROLLBACK")
        finally:
            self._turn.release()

    def close(self) -> None:
        """Close the file; it stays where it is, for another process may be about to lock it."""
        self._connection.close()


__all__ = ["FileLock"]
