# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A response on its way to a participant, piece by piece."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from inspect import isawaitable
from typing import Any, Protocol

from xr_ai_conversation.graph.build import new_id
from xr_ai_conversation.xr.host import AgentTurn, ResponseOutput, Topic
from xr_ai_conversation.xr.routing import Started


class Publisher(Protocol):
    """As much of an agent runtime as publishes."""

    async def publish(
        self,
        topic: Topic[Any],
        message: ResponseOutput | Mapping[str, Any],
        *,
        participant_id: str | None = None,
        source: str = "application",
    ) -> None:
        """Deliver a message to all subscribers of its topic, and wait until each of them is done."""


class Response:
    """One reply to a turn: its pieces share a response id and a source, and an empty final piece ends what was begun.

    Args:
        runtime: Delivers the pieces.
        topic: Where they are published.
        turn: What it replies to.
        source: Who replies.
        started: Called once, just before the first piece is published.

    Raises:
        ValueError: The ids or the time of the turn cannot be those of a reply.
    """

    def __init__(
        self,
        runtime: Publisher,
        topic: Topic[ResponseOutput],
        turn: AgentTurn,
        source: str,
        started: Started | None,
    ) -> None:
        self._runtime = runtime
        self._topic = topic
        self._turn = turn
        self._source = source
        self._started = started
        self._id = new_id()
        # made now, so that a turn that cannot be replied to is refused at once
        self._end = self._piece("", final=True)
        self._open = False
        self.said: list[str] = []
        """What has been published, and taken by all subscribers."""

    async def say(self, text: str) -> None:
        """Publish the next piece; it may be held up by who listens.

        Raises:
            BaseExceptionGroup: A subscriber failed, or was cancelled.
            CancelledError: The task was cancelled, also if somebody else has swallowed that.
        """
        if not self._open and self._started is not None and isawaitable(begun := self._started()):
            await begun
        task = asyncio.current_task()
        if task and task.cancelling():
            raise asyncio.CancelledError
        # a piece that a listener fails to take may have opened its stream
        self._open = True
        await self._publish(self._piece(text, final=False))
        self.said.append(text)

    async def end(self) -> None:
        """Publish the end of what was begun; nothing if nothing was, or if it is ended.

        Raises:
            BaseExceptionGroup: A subscriber failed, or was cancelled.
        """
        if self._open:
            self._open = False
            await self._publish(self._end)

    def _piece(self, text: str, *, final: bool) -> ResponseOutput:
        return ResponseOutput(
            kind="reply",
            text=text,
            final=final,
            request_id=self._turn.turn_id,
            response_id=self._id,
            timestamp_us=self._turn.timestamp_us,
        )

    async def _publish(self, output: ResponseOutput) -> None:
        await self._runtime.publish(
            self._topic, output, participant_id=self._turn.participant_id, source=self._source
        )


__all__ = ["Publisher", "Response"]
