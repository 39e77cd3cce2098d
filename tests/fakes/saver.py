# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Savers in memory: one whose commits can be held up or made to fail, and one of no known kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.memory import InMemorySaver


class SteeredSaver(InMemorySaver):
    """Commits at once, until it is told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        """A commit waits until this is set; it is at first."""
        self.open.set()
        self.reached = asyncio.Event()
        """Set when a commit has begun."""
        self.error: Exception | None = None
        """Raised by each commit, if there is one."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Any:
        self.reached.set()
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return await super().aput(config, checkpoint, metadata, new_versions)


class PlainSaver(BaseCheckpointSaver[int]):
    """Does what savers must and no more: versions are whole numbers, and each is stored once."""

    def __init__(self) -> None:
        super().__init__()
        self._inner = InMemorySaver()

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._inner.aget_tuple(config)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        async for found in self._inner.alist(config, **options):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        await asyncio.sleep(0)
        place = (config["configurable"]["thread_id"], config["configurable"]["checkpoint_ns"])
        new = {
            channel: version
            for channel, version in new_versions.items()
            if (*place, channel, version) not in self._inner.blobs
        }
        return await self._inner.aput(config, checkpoint, metadata, new)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._inner.aput_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._inner.adelete_thread(thread_id)


__all__ = ["PlainSaver", "SteeredSaver"]
