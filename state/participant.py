# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The state of the graph: a participant's context, which is kept, and what one run is about, which is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, cast

from langgraph.channels import EphemeralValue, UntrackedValue
from pydantic import Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from xr_ai_conversation.state.chat import ChatMessage, request_of, told
from xr_ai_conversation.state.context import STRICT, ParticipantContext, Time, first_fault, load
from xr_ai_conversation.state.manifest import Manifest
from xr_ai_conversation.state.operations import Operation, taken
from xr_ai_conversation.state.text import clean, visible

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
    """What a run of the whole graph is given: one of a request, messages, an update, or the order to forget.

    It is there for the first node alone, also if that is run in another process, after an interrupt or a failure.
    """

    request: Annotated[
        str, Field(description="What the participant says; it is answered and recorded."), EphemeralValue
    ]
    messages: Messages
    topic: Annotated[
        str,
        Field(description="A configured topic, on which the update in text was published."),
        EphemeralValue,
    ]
    text: Annotated[str, Field(description="The text of an update on topic."), EphemeralValue]
    forget: Annotated[
        bool,
        Field(
            description="True forgets everything of this thread's participant. Its earlier checkpoints keep what they "
            "hold until the thread is deleted."
        ),
        EphemeralValue,
    ]


class ConversationReply(TypedDict, total=False):
    """What a run answers."""

    reply: Annotated[str, Field(description="The answer to the request."), UntrackedValue]


class ConversationOutput(ConversationReply, total=False):
    """What a run of the whole graph returns."""

    messages: Messages


@with_config(STRICT)
class Answered(TypedDict):
    """An exchange between the answer and its record."""

    time: Time
    """When the request came."""
    request: str
    response: str


_ANSWERED: TypeAdapter[Answered] = TypeAdapter(Answered)


def answered(_: object, given: object) -> Answered:
    """Return what is to be recorded, if it can be; the reducer of `exchange`.

    Args:
        given: An exchange as a node or a person gives it; an empty one, or None, leaves nothing to record.

    Raises:
        ValueError: It is something else, or a text is blank.
    """
    if not given:
        return cast("Answered", {})  # as the channel begins
    try:
        found = _ANSWERED.validate_python(given)
    except ValidationError as error:
        raise ValueError(f"the edit is refused: exchange is wrong at {first_fault(error)}") from None
    for name, text in (("request", found["request"]), ("response", found["response"])):
        if not visible(clean(text)):
            raise ValueError(f"the edit is refused: exchange.{name} must not be blank")
    return found


class PendingState(TypedDict, total=False):
    """What the graph is built upon: nothing of the input, so that the choice of its first edge is given that as it came."""

    exchange: Annotated[
        Answered,
        Field(
            description="What was answered and is not recorded yet, if a run was stopped in between; else empty."
        ),
        answered,
    ]


class ParticipantState(ConversationInput, ConversationOutput, PendingState, total=False):
    """The state of a participant's thread; the context, the messages and the manifest are stored."""

    context: Annotated[
        ParticipantContext,
        Field(
            description="What is remembered of the participant. Nodes write operations, which are folded in; "
            "a whole context is an edit, and is refused if it breaks a rule."
        ),
        taken,
    ]
    until: Annotated[str, UntrackedValue]
    """While the section `topic` is compacted: id of the last entry to take; empty when it is done."""
    rejected: Annotated[str, UntrackedValue]
    """Why a compaction request changed nothing; empty if it did, or another node changed the context."""
    manifest: Manifest | None
    """What the last answer was made from, in ids and sizes; it is stored beside the context, and replaced with each."""


class NodeInput(ParticipantState, total=False):
    """What a node that calls a model is given: a participant's state, or, in a live run, a snapshot."""

    known: ParticipantContext
    """The context, where it was read and checked already; else it is `context`, as it was stored."""
    asked: str
    """When the request came, as `times.stamp` writes it, where that is known already."""


class Changes(TypedDict, total=False):
    """What a node returns."""

    context: list[Operation]
    topic: str | None
    exchange: Answered | None
    reply: str
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
    if "context" in given:
        raise ValueError('a run takes no context; edit it with update_state(..., as_node="record")')
    present = [key for key, value in given.items() if value not in (None, False, []) and key != "exchange"]
    kinds = [kind for kind, keys in _KINDS.items() if not set(keys).isdisjoint(present)]
    if len(kinds) > 1 or (present and not kinds):
        raise ValueError(f"a run must be given one of {', '.join(_KINDS)}, got {', '.join(sorted(present))}")
    for kind in kinds:
        if kind == "messages":
            request_of(given["messages"])
        if kind == "request" and not (isinstance(given[kind], str) and visible(given[kind])):
            got = "blank text" if isinstance(given[kind], str) else type(given[kind]).__name__
            raise ValueError(f"request must be text that is not blank, got {got}")
        if kind == "topic and text" and not {"topic", "text"} <= {*present}:
            raise ValueError(f"an update must have a topic and a text, got {', '.join(present)} alone")
        if kind == "forget" and given[kind] is not True:
            raise ValueError(f"forget must be true or false, got {type(given[kind]).__name__}")
        return kind
    return "nothing"


__all__ = [
    "Answered",
    "Changes",
    "ConversationInput",
    "ConversationOutput",
    "ConversationReply",
    "NodeInput",
    "ParticipantState",
    "PendingState",
    "Wanted",
    "answered",
    "context_of",
    "wanted",
]
