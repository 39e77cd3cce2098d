# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a LangGraph saver must do for us beyond its contract, and what every saver can do of that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple, empty_checkpoint

from xr_ai_conversation.state.context import Archive

Saver = BaseCheckpointSaver[Any]  # Any: savers differ in the type of their versions, which nothing here reads


Channel: TypeAlias = Literal["context", "archive"]
"""What is stored of a participant: the context in the checkpoints of the graph; the archive, which most commits leave
as it is, in a namespace of its own, since a checkpoint in SQLite holds all channels of its namespace."""


def namespace(channel: Channel) -> str:
    """Return the checkpoint namespace that holds a channel; the graph's own is the empty one."""
    return "" if channel == "context" else channel


def thread(participant_id: str, channel: Channel = "context") -> RunnableConfig:
    """Return the config of a participant's thread; the thread id is the participant id, and nothing else is."""
    return {"configurable": {"thread_id": participant_id, "checkpoint_ns": namespace(channel)}}


@dataclass(frozen=True, slots=True)
class Head:
    """The newest checkpoint of a thread in one of its namespaces."""

    value: object
    """The stored value of the channel, unchecked; None if there is none."""
    checkpoint_id: str | None
    """None if there is no checkpoint."""
    version: Any = None  # Any: savers differ in the type of their versions
    """Of the channel; None if there is none."""


def head_of(checkpoint: Checkpoint, channel: Channel) -> Head:
    """Return what a checkpoint tells of a channel."""
    return Head(
        checkpoint["channel_values"].get(channel),
        checkpoint["id"],
        checkpoint["channel_versions"].get(channel),
    )


class Store:
    """A saver of any kind: what every saver can do. Its threads are not pruned."""

    def __init__(self, saver: Saver) -> None:
        self.saver = saver

    async def head(self, participant_id: str, channel: Channel = "context") -> Head:
        """Return the newest checkpoint of a participant's thread that has a channel."""
        found = await self.saver.aget_tuple(thread(participant_id, channel))
        if found is None:
            return Head(None, None)
        return head_of(found.checkpoint, channel)

    async def checkpoints(self, participant_id: str) -> list[CheckpointTuple]:
        """Return the checkpoints of a participant's thread that are kept, oldest first."""
        return [found async for found in self.saver.alist(thread(participant_id))][::-1]

    async def put_archive(self, participant_id: str, archive: Archive, before: Head, saver: Saver) -> None:
        """Store a participant's archive in the place of the one before.

        Args:
            participant_id: Whose.
            archive: It holds what the one before does.
            before: The one before.
            saver: The one that `exclusive` yielded.
        """
        versions = {"archive": saver.get_next_version(before.version, None)}
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"archive": archive}
        checkpoint["channel_versions"] = versions
        await saver.aput(
            thread(participant_id, "archive"),
            checkpoint,
            {"source": "update", "step": -1, "parents": {}},
            versions,
        )

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
        """Delete all but the newest `keep` checkpoints of a participant's thread, and all archives but the newest."""

    async def forget(self, participant_id: str, saver: Saver) -> None:
        """Delete a participant's thread, so that no byte of it is left.

        Args:
            participant_id: Whose.
            saver: The one that `exclusive` yielded.
        """
        await saver.adelete_thread(participant_id)

    async def close(self) -> None:
        """Release what was opened here; the saver itself is its owner's."""


__all__ = ["Channel", "Head", "Saver", "Store", "head_of", "namespace", "thread"]
