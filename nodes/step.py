# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a graph runs, in synchronous and in asynchronous runs alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Step(Runnable[_In, _Out], Generic[_In, _Out]):
    """A node, or the choice of an edge.

    Args:
        run: What it does, in a synchronous run.
        arun: The same for an asynchronous run; None for what waits for nothing, which is done there in place.
    """

    def __init__(
        self, run: Callable[[_In], _Out], arun: Callable[[_In], Awaitable[_Out]] | None = None
    ) -> None:
        self.name = None  # it goes by the name of the node
        self._run = run
        self._arun = arun

    def invoke(self, input: _In, config: RunnableConfig | None = None, **kwargs: Any) -> _Out:
        """Run it."""
        return self._run(input)

    async def ainvoke(self, input: _In, config: RunnableConfig | None = None, **kwargs: Any) -> _Out:
        """Run it in the event loop."""
        return self.invoke(input, config) if self._arun is None else await self._arun(input)


__all__ = ["Step"]
