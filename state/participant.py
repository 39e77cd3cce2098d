# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The state of the graph: a participant's context, which is kept, and what one run is about, which is not."""

from __future__ import annotations

from typing import Annotated

from langgraph.channels import UntrackedValue
from typing_extensions import TypedDict

from xr_ai_conversation.state.context import ParticipantContext
from xr_ai_conversation.state.manifest import Manifest
from xr_ai_conversation.state.operations import Operation, fold


class ConversationInput(TypedDict, total=False):
    """What a run of the whole graph is given: one of a request, an update, or the order to forget."""

    request: Annotated[str, UntrackedValue]
    """What the participant says; it is answered and recorded."""
    topic: Annotated[str | None, UntrackedValue]
    """A configured topic; the update in `text` was published on it."""
    text: Annotated[str, UntrackedValue]
    """The text of an update."""
    forget: Annotated[bool, UntrackedValue]
    """True forgets everything of this thread's participant."""


class ConversationOutput(TypedDict, total=False):
    """What a run of the whole graph returns."""

    reply: Annotated[str, UntrackedValue]
    """The answer to `request`."""


class ParticipantState(ConversationInput, ConversationOutput, total=False):
    """The state of a participant's thread; only the context and the manifest are stored."""

    context: Annotated[ParticipantContext, fold]
    """Nodes read it as it is, and write operations, which are folded in."""
    asked: Annotated[str, UntrackedValue]
    """When the request came, as `times.stamp` writes it."""
    until: Annotated[str, UntrackedValue]
    """While a section is compacted: id of the last entry to take; empty when it is done."""
    rejected: Annotated[str, UntrackedValue]
    """Why a compaction request changed nothing; empty if it did."""
    manifest: Manifest | None
    """What the last answer was made from, in ids and sizes; it is stored beside the context, and replaced with each."""


class LiveState(ConversationInput, ConversationOutput, total=False):
    """The state of a run that only calls a model: the context goes in as a snapshot, operations come out."""

    context: ParticipantContext | list[Operation]
    until: str
    rejected: str
    asked: str
    manifest: Manifest | None


__all__ = ["ConversationInput", "ConversationOutput", "LiveState", "ParticipantState"]
