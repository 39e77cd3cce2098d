# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A listener that is as strict as a voice layer, and can be made to listen slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from xr_ai_conversation.xr import VOICE_OUTPUT_TOPIC, Agent, ResponseOutput, RuntimeContext, subscribe


class VoiceStreamError(RuntimeError):
    """Raised for a piece that no stream can take."""


@dataclass
class Spoken:
    """One response as it was heard."""

    participant: str
    source: str
    request: str | None
    pieces: list[str] = field(default_factory=list)
    open: bool = True


class VoiceLayer(Agent):
    """Hears responses, and rejects an end without a beginning, pieces after an end, and streams across each other."""

    def __init__(self) -> None:
        super().__init__()
        self.responses: list[Spoken] = []
        self._streams: dict[tuple[str, str, str], Spoken] = {}
        self.errors: list[Exception] = []
        self.outputs: list[ResponseOutput] = []
        """All pieces, in the order in which they came."""
        self._counts: dict[int, asyncio.Event] = {}
        self.listen: Callable[[ResponseOutput], Awaitable[None]] | None = None
        """Called with each piece when it is taken; the publisher waits for it."""

    @subscribe(VOICE_OUTPUT_TOPIC)
    async def output(self, message: ResponseOutput, context: RuntimeContext) -> None:
        try:
            self._take(message, context)
        except (ValueError, VoiceStreamError) as error:
            self.errors.append(error)
            raise
        self.outputs.append(message)
        self._count(len(self.outputs)).set()
        if self.listen is not None:
            await self.listen(message)

    def _take(self, message: ResponseOutput, context: RuntimeContext) -> None:
        participant, source = context.metadata.participant_id, context.metadata.source
        if participant is None:
            raise ValueError("a response needs a participant")
        if message.response_id is None:
            self.responses.append(Spoken(participant, source, message.request_id, [message.text], open=False))
            return
        key = (participant, source, message.response_id)
        stream = self._streams.get(key)
        if stream is None:
            if message.final and not message.text.strip():
                raise VoiceStreamError(f"the end of {key}, which was never begun")
            others = [other for other in self._streams if other[:2] == key[:2] and self._streams[other].open]
            if others:
                raise VoiceStreamError(f"{key} was begun while {others} are open")
            stream = self._streams[key] = Spoken(participant, source, message.request_id)
            self.responses.append(stream)
        elif message.urgent:
            raise ValueError("a later piece may not be urgent")
        if not stream.open:
            raise VoiceStreamError(f"a piece of {key}, which has ended")
        if stream.request != message.request_id:
            raise VoiceStreamError(f"a piece of {key} for another request")
        stream.pieces.append(message.text)
        stream.open = not message.final

    def _count(self, count: int) -> asyncio.Event:
        return self._counts.setdefault(count, asyncio.Event())

    async def heard(self, count: int) -> None:
        """Return when as many pieces have come."""
        await self._count(count).wait()

    def said(self, participant: str) -> list[str]:
        return ["".join(spoken.pieces) for spoken in self.responses if spoken.participant == participant]


__all__ = ["Spoken", "VoiceLayer", "VoiceStreamError"]
