# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A lock between processes."""

from __future__ import annotations

import asyncio
import sqlite3

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
        try:
            await asyncio.to_thread(self._connection.execute, "BEGIN IMMEDIATE")
        except BaseException:
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
