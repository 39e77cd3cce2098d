# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The state of the graph: a participant's context, which is kept, and what one run is about, which is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from langgraph.channels import UntrackedValue
from pydantic import Field
from typing_extensions import TypedDict

from xr_ai_conversation.state.chat import ChatMessage, request_of, told
from xr_ai_conversation.state.context import ParticipantContext, load
from xr_ai_conversation.state.manifest import Manifest
from xr_ai_conversation.state.operations import Operation, fold
from xr_ai_conversation.state.text import visible

Wanted: TypeAlias = Literal["request", "messages", "topic and text", "forget", "nothing"]
"""What a run is given."""


Messages: TypeAlias = Annotated[
    list[ChatMessage],
    Field(
        description="Chat messages: the last human one is the request. Afterwards the dialogue that is remembered "
        "verbatim, with the answer at its end."
    ),
    told,
]


class ConversationInput(TypedDict, total=False):
    """What a run of the whole graph is given: one of a request, messages, an update, or the order to forget."""

    request: Annotated[
        str, Field(description="What the participant says; it is answered and recorded."), UntrackedValue
    ]
    messages: Messages
    topic: Annotated[
        str,
        Field(description="A configured topic, on which the update in text was published."),
        UntrackedValue,
    ]
    text: Annotated[str, Field(description="The text of an update on topic."), UntrackedValue]
    forget: Annotated[
        bool, Field(description="True forgets everything of this thread's participant."), UntrackedValue
    ]


class ConversationReply(TypedDict, total=False):
    """What a run answers."""

    reply: Annotated[str, Field(description="The answer to the request."), UntrackedValue]


class ConversationOutput(ConversationReply, total=False):
    """What a run of the whole graph returns."""

    messages: Messages


class KeptState(TypedDict, total=False):
    """What the graph is built upon: nothing of the input, so that the choice of its first edge is given that as it came."""

    context: Annotated[
        ParticipantContext,
        Field(
            description="What is remembered of the participant. Nodes write operations, which are folded in; "
            "a whole context is an edit, and is refused if it breaks a rule."
        ),
        fold,
    ]


class ParticipantState(ConversationInput, ConversationOutput, KeptState, total=False):
    """The state of a participant's thread; the context, the messages and the manifest are stored."""

    asked: Annotated[str, UntrackedValue]
    """When the request came, as `times.stamp` writes it."""
    until: Annotated[str, UntrackedValue]
    """While a section is compacted: id of the last entry to take; empty when it is done."""
    rejected: Annotated[str, UntrackedValue]
    """Why a compaction request changed nothing; empty if it did."""
    manifest: Manifest | None
    """What the last answer was made from, in ids and sizes; it is stored beside the context, and replaced with each."""


class NodeInput(ParticipantState, total=False):
    """What a node that calls a model is given: a participant's state, or, in a live run, a snapshot."""

    known: ParticipantContext
    """The context, where it was read and checked already; else it is `context`, as it was stored."""


class Changes(TypedDict, total=False):
    """What a node returns."""

    context: list[Operation]
    request: str
    topic: str | None
    reply: str
    asked: str
    until: str
    rejected: str
    manifest: Manifest | None
    messages: Any
    """Messages to be added, or an order to overwrite them; of no concern to a live graph."""


def context_of(given: NodeInput) -> ParticipantContext:
    """Return the context that a node works on, checked.

    Raises:
        ContextSchemaError: What is stored is damaged, or of a newer version.
    """
    return given["known"] if "known" in given else load(given.get("context"))


_KINDS: Mapping[Wanted, tuple[str, ...]] = {
    "request": ("request",),
    "messages": ("messages",),
    "topic and text": ("topic", "text"),
    "forget": ("forget",),
}


def wanted(given: Mapping[str, Any]) -> Wanted:
    """Return what the input of a run asks for; what is None, False or an empty list is not given.

    Args:
        given: The input as it came.

    Raises:
        ValueError: It mixes several, it has none of them, or one is not of its type; the message says what is allowed.
    """
    present = [key for key, value in given.items() if value not in (None, False, []) and key != "context"]
    kinds = [kind for kind, keys in _KINDS.items() if not set(keys).isdisjoint(present)]
    if len(kinds) > 1 or (present and not kinds):
        raise ValueError(f"a run must be given one of {', '.join(_KINDS)}, got {', '.join(sorted(present))}")
    for kind in kinds:
        if kind == "messages":
            request_of(given["messages"])
        if kind == "request" and not (isinstance(given[kind], str) and visible(given[kind])):
            raise ValueError(f"request must be text that is not blank, got {type(given[kind]).__name__}")
        if kind == "forget" and given[kind] is not True:
            raise ValueError(f"forget must be true or false, got {type(given[kind]).__name__}")
        return kind
    return "nothing"


__all__ = [
    "Changes",
    "ConversationInput",
    "ConversationOutput",
    "ConversationReply",
    "KeptState",
    "NodeInput",
    "ParticipantState",
    "Wanted",
    "context_of",
    "wanted",
]
