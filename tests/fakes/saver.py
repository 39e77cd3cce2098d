# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A saver in memory whose commits can be held up or made to fail."""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
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


__all__ = ["SteeredSaver"]
