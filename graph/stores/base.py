# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a LangGraph saver must do for us beyond its contract, and what every saver can do of that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

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
    async def exclusive(self, participant_id: str) -> AsyncIterator[Saver]:
        """Keep other processes from committing to a participant's thread, where the saver has several.

        Yields:
            The saver to write with meanwhile: where it can be, what it writes is lost with the exclusion.
        """
        yield self.saver

    @asynccontextmanager
    async def compacting(self, participant_id: str, topic: str | None) -> AsyncIterator[None]:
        """Keep other processes from asking for a summary of the same section, where the saver has several."""
        yield

    def passing(self, error: BaseException) -> bool:
        """Tell whether an error passes by itself, so that what failed is worth another try."""
        return False

    async def idle(self, since: datetime) -> list[str]:
        """Return the ids of the threads that have no checkpoint since a time; none if the saver cannot tell."""
        return []

    async def prune(self, participant_id: str, keep: int) -> None:
        """Delete all but the newest `keep` checkpoints of a participant's thread."""

    async def forget(self, participant_id: str, saver: Saver) -> None:
        """Delete a participant's thread, so that no byte of it is left.

        Args:
            participant_id: Whose.
            saver: The one that `exclusive` yielded.
        """
        await saver.adelete_thread(participant_id)

    async def close(self) -> None:
        """Release what was opened here; the saver itself is its owner's."""


__all__ = ["Head", "Saver", "Store", "thread"]
