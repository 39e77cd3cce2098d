# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Threads in memory."""

from __future__ import annotations

from datetime import datetime

from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

from xr_ai_conversation.graph.stores.base import Channel, Head, Saver, Store, namespace
from xr_ai_conversation.graph.stores.ids import first_id


class MemoryStore(Store):
    """Threads in memory: they are looked up without being made, and deleted without searching all others."""

    saver: InMemorySaver

    async def head(self, participant_id: str, channel: Channel = "context") -> Head:
        """Return the newest checkpoint of a participant's thread that has a channel."""
        if participant_id not in self.saver.storage:
            return Head(None, None)
        return await super().head(participant_id, channel)

    async def checkpoints(self, participant_id: str) -> list[CheckpointTuple]:
        """Return the checkpoints of a participant's thread that are kept, oldest first."""
        return await super().checkpoints(participant_id) if participant_id in self.saver.storage else []

    async def idle(self, since: datetime) -> list[str]:
        """Return the ids of the threads that have no checkpoint since a time."""
        limit = first_id(since)
        return [
            participant_id
            for participant_id, namespaces in self.saver.storage.items()
            if max(namespaces.get("", {}), default=limit) < limit
        ]

    async def prune(self, participant_id: str, keep: int) -> None:
        """Delete all but the newest `keep` checkpoints of a participant's thread, and what only they hold."""
        for found, kept in ((namespace("context"), keep), (namespace("archive"), 1)):
            if found in self.saver.storage.get(participant_id, {}):
                self._prune(participant_id, found, kept)

    async def forget(self, participant_id: str, saver: Saver) -> None:
        """Delete a participant's thread."""
        for found in list(self.saver.storage.get(participant_id, {})):
            self._prune(participant_id, found, 0)
        self.saver.storage.pop(participant_id, None)

    def _prune(self, participant_id: str, namespace: str, keep: int) -> None:
        checkpoints = self.saver.storage[participant_id][namespace]
        ids = sorted(checkpoints, reverse=True)
        kept = self._blobs(participant_id, namespace, ids[:keep])
        for blob in self._blobs(participant_id, namespace, ids[keep:]) - kept:
            self.saver.blobs.pop(blob, None)
        for checkpoint_id in ids[keep:]:
            del checkpoints[checkpoint_id]
            self.saver.writes.pop((participant_id, namespace, checkpoint_id), None)

    def _blobs(
        self, participant_id: str, namespace: str, ids: list[str]
    ) -> set[tuple[str, str, str, str | int | float]]:
        checkpoints = self.saver.storage[participant_id][namespace]
        return {
            (participant_id, namespace, channel, version)
            for checkpoint_id in ids
            for channel, version in self.saver.serde.loads_typed(checkpoints[checkpoint_id][0])[
                "channel_versions"
            ].items()
        }


__all__ = ["MemoryStore"]
