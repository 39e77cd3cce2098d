# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A model for summaries that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from langchain_core.messages import BaseMessage

from fakes.chat import Piece, ScriptedModel


class Summariser:
    """A model whose summaries begin when asked and end when released.

    Args:
        text: What each of them is.
    """

    def __init__(self, text: str = "S") -> None:
        self.text = text
        self.begun = asyncio.Event()
        self.release = asyncio.Event()
        self.cancelled = 0
        self.model = ScriptedModel(script=self._script)

    async def _script(self, _: list[BaseMessage]) -> AsyncIterator[Piece]:
        self.begun.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        yield self.text


__all__ = ["Summariser"]
