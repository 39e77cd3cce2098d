# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Work that must be finished once it is begun."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, TypeVar

_T = TypeVar("_T")


async def unbroken(work: Coroutine[Any, Any, _T], name: str) -> _T:
    """Await work that a cancellation must not cut short; a cancellation meanwhile goes on when it is done.

    Args:
        work: It runs in a task of its own, and in a context of its own: no callback of a graph that it is
            called from reaches it.
        name: Name of the task.

    Returns:
        What the work returns.
    """
    task = asyncio.get_running_loop().create_task(work, name=name, context=Context())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is None:
        return task.result()
    failure = None if task.cancelled() else task.exception()
    raise cancelled from failure


__all__ = ["unbroken"]
