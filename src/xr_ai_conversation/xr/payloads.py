# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is published on topics: queries, responses, context updates and notices of a participant."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

Id: TypeAlias = Annotated[str, Field(min_length=1)]
TimestampUs: TypeAlias = Annotated[int, Field(ge=0)]


class Payload(BaseModel):
    """A message of a topic: never changed once made, and without fields that are not declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ResponseOutput(Payload):
    """One piece of what is to be said or shown to a participant, who is named by the message's metadata.

    Raises:
        pydantic.ValidationError: The fields do not go together; it is a `ValueError`.
    """

    kind: Literal["reply", "update", "withdraw"]
    """A reply answers a request, an update is unprompted, a withdrawal drops the producer's queued updates."""
    text: str = ""
    """The text, or the next part of it if there is a response id."""
    final: bool = True
    """The response ends with this piece."""
    request_id: Id | None = None
    """Which request a reply answers."""
    response_id: Id | None = None
    """Which response this is an ordered piece of; None is a response of its own."""
    urgent: bool = False
    """An update that cuts short what is being said, and comes next."""
    timestamp_us: TimestampUs | None = None
    """Unix microseconds; None is the time of publication."""

    @model_validator(mode="after")
    def _hold_together(self) -> Self:
        if self.kind == "reply" and self.request_id is None:
            raise ValueError("a reply needs the request_id that it answers")
        if self.kind != "reply" and self.request_id is not None:
            raise ValueError(f"request_id goes with a reply, not with kind {self.kind!r}")
        if self.urgent and self.kind != "update":
            raise ValueError(f"only an update may be urgent, not kind {self.kind!r}")
        if self.kind == "withdraw":
            if self.text or self.response_id is not None or not self.final:
                raise ValueError("a withdrawal has no text, no response_id and is final")
            return self
        blank = not self.text.strip()
        if self.response_id is None and not self.final:
            raise ValueError("a piece that is not final needs a response_id")
        if self.response_id is None and blank:
            raise ValueError("a response without a response_id needs text that is not blank")
        if self.urgent and self.final and blank:
            raise ValueError("an empty final piece may not be urgent")
        return self


class ConversationContextUpdate(Payload):
    """What is newly known about a participant; the topic decides whether it replaces or appends."""

    text: str = Field(min_length=1)
    """The information, as a model is to read it."""


class UserQuery(Payload):
    """One accepted query, by voice or in writing; who asks is in the message's metadata."""

    text: str = Field(min_length=1)
    """What was said or written."""
    timestamp_us: TimestampUs | None = None
    """Unix microseconds at which it was begun; None is the time of publication."""


class Interrupted(Payload):
    """The participant of the metadata interrupted what was said; no participant means all of them."""


class ParticipantJoined(Payload):
    """The participant of the metadata came."""


class ParticipantLeft(Payload):
    """The participant of the metadata left."""


__all__ = [
    "ConversationContextUpdate",
    "Interrupted",
    "ParticipantJoined",
    "ParticipantLeft",
    "ResponseOutput",
    "UserQuery",
]
