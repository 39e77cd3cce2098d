# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A LangChain agent that remembers: what is known of a participant, in each of its model calls."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import Annotated, Any, NoReturn, NotRequired, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from xr_ai_conversation.graph.manager import BaseContextManager
from xr_ai_conversation.nodes.message import text_of
from xr_ai_conversation.state.context import ParticipantContext
from xr_ai_conversation.state.prompt import blocks, context_message
from xr_ai_conversation.state.reasoning import without_reasoning
from xr_ai_conversation.state.render import ContextBlock
from xr_ai_conversation.state.text import clean, visible
from xr_ai_conversation.state.times import instant, stamp

try:
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ContextT,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
        ResponseT,
    )
except ImportError as error:
    raise ImportError(
        "ConversationMiddleware needs LangChain: pip install 'xr-ai-conversation[langchain]'"
    ) from error

_LOG = logging.getLogger(__name__)

_CLOCK_STEP = timedelta(minutes=5)  # about as long as providers keep a prefix that nobody asks for
_NOT_SAID = "not_said_by_the_model"
"""Marks, in its metadata, the last message of a run that the model gave no answer in, lest it come back as history."""


class Turn(TypedDict):
    """What an agent's own state holds of the turn that it is in, or was in last."""

    participant: str
    request: str
    """Id of the first message of the request."""
    text: str
    """The request, as the model was sent it last; its messages may be gone before the run ends."""
    asked: str
    """When, as `times.stamp` writes it."""
    said: str | None
    """Id of what the model said last, which tells it from what other middleware says in its place."""
    last: str | None
    """Id of the last message of the turn, or of its request until it has ended."""


class TurnState(AgentState[Any]):
    """The state of an agent that remembers."""

    conversation_turn: NotRequired[Annotated[Turn, PrivateStateAttr]]


class ConversationMiddleware(AgentMiddleware[TurnState, ContextT, ResponseT]):
    """Gives an agent of `create_agent` the context of a participant, and records what it answered.

    Each model call of a run is sent the system messages, the context, and the messages of this run: the request, and
    the tool calls and results since. Earlier turns are in the context, and never sent as messages. When a run has
    ended, what was asked and what was answered last is recorded, once, with the id of the request's first message as its
    turn id; nothing is of a run that failed, was cancelled, or ended without an answer of the model. Compaction goes on in the background, and no run waits for it.

    Of history that a caller passes in, or that other agents of a graph have left, each exchange is recorded that was not
    recorded as often as it is there. Of several agents that answer a request, each records its own answer. The current
    time that the model is told stays the same for five minutes, or until something newer is known, so that the calls of a
    tool loop share their beginning.

    Put it first in the list of middleware. The agent must be run by `ainvoke` or `astream`. Its checkpointer, if it has
    one, must not keep its threads where the context manager keeps its own.

    Args:
        context: Keeps what is remembered; the application owns and closes it. Several agents and conversations may share
            one.
        participant: Returns the participant's id, given the agent's state and runtime, once at the start of a run. None
            is the run's `thread_id`.
        keep_turns: How many earlier turns stay in the agent's own state, for whoever shows them. None keeps all, and the
            agent's checkpoints grow for ever.

    Raises:
        TypeError: The context is no context manager.
        ValueError: `keep_turns` is negative.
    """

    state_schema = TurnState

    def __init__(
        self,
        context: BaseContextManager,
        *,
        participant: Callable[[TurnState, Runtime[ContextT]], str] | None = None,
        keep_turns: int | None = 10,
    ) -> None:
        if not isinstance(context, BaseContextManager):
            raise TypeError(f"context must be a ContextManager, got {type(context).__name__}")
        if keep_turns is not None and keep_turns < 0:
            raise ValueError(f"keep_turns must be at least 0, or None for all, got {keep_turns}")
        self._context = context
        self._participant = participant or _thread_id
        self._keep_turns = keep_turns

    def before_agent(self, state: TurnState, runtime: Runtime[ContextT]) -> NoReturn:
        """Refuse a synchronous run.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "an agent with ConversationMiddleware is asynchronous: call ainvoke or astream, not invoke or stream"
        )

    async def abefore_agent(self, state: TurnState, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """Begin a turn: take in history that is new, and drop the oldest turns from the agent's state.

        Raises:
            ContextSchemaError: What is stored is damaged, of a newer version, or of another graph.
            ValueError: The messages hold no request, or the participant's id cannot be.
        """
        messages = state["messages"]
        asked = self._context.clock()
        before = state.get("conversation_turn")
        known = 1 + _index(messages, before["last"]) if before else 0
        start, stale = _request(messages, known), list[AnyMessage]()
        again = _index(messages, before["request"]) if before else -1
        # No person said anything new: the last request has come again, under its id. What else is new is of another
        # agent, if the last run has ended, or else what it has left behind.
        if 0 <= again <= start < known and (
            not _dialogue(messages[known:]) or isinstance(messages[known - 1], HumanMessage)
        ):
            start, end = again, again + len(_of_person(messages[again:]))
            messages, stale = messages[:end], _dialogue(messages[end:])
        # a list of content may be a request without any text, as a picture is
        if all(
            isinstance(said.content, str) and not visible(said.content)
            for said in _of_person(messages[start:])
        ):
            raise ValueError("a run needs a human message with text, got blank text")
        participant = self._participant(state, runtime)
        if history := _exchanges(messages[known:start]):
            _, commit = await self._context.with_history(participant, history, unordered=True)
            if commit:
                await commit
        turn: Turn = {
            "participant": participant,
            "request": messages[start].id or "",
            "text": _asked(messages[start:]),
            "asked": stamp(asked),
            "said": None,
            "last": messages[-1].id,
        }
        gone = [*self._oldest(messages[:start]), *stale]
        removed = [RemoveMessage(id=message.id) for message in gone if message.id]
        return {"messages": removed, "conversation_turn": turn}

    async def awrap_model_call(
        self,
        request: ModelRequest[ContextT],
        handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse[ResponseT]]],
    ) -> ExtendedModelResponse[ResponseT]:
        """Call the model with the context as it is now, and with the messages of this turn only.

        Raises:
            ContextSchemaError: What is stored is damaged, of a newer version, or of another graph.
        """
        turn = cast("TurnState", request.state)["conversation_turn"]
        start = _index(request.messages, turn["request"])
        if start >= 0:
            run = _dialogue(request.messages[start:])
            turn = {**turn, "text": _asked(run)}
        else:  # a tool or another middleware, as one that summarises, has removed the request
            run = [HumanMessage(turn["text"]), *_dialogue(request.messages)]
        known = await self._context.snapshot(turn["participant"])
        shown = blocks(_without_answers(known, turn), self._context.budgets)
        context = HumanMessage(context_message(shown, self._now(turn, shown)))
        messages = [*_instructions(request.messages), context, *run]
        response = await handler(request.override(messages=messages))
        said = next((message.id for message in response.result if isinstance(message, AIMessage)), None)
        return ExtendedModelResponse(response, Command(update={"conversation_turn": {**turn, "said": said}}))

    async def aafter_agent(self, state: TurnState, runtime: Runtime[ContextT]) -> dict[str, Any] | None:
        """Record what was asked and answered; it is durable when this returns.

        Raises:
            ContextSchemaError: What is stored is damaged, of a newer version, or of another graph.
        """
        messages, turn = state["messages"], state.get("conversation_turn")
        if turn is None:  # another middleware has ended the run before it began here
            return {"messages": _not_said(messages[-1])}
        ended: Turn = {**turn, "last": messages[-1].id}
        said = _index(messages, turn["said"])
        answer = _answer(messages[said:]) if said >= 0 else ""
        if not visible(answer) or not all(
            isinstance(message, ToolMessage) for message in messages[said + 1 :]
        ):
            fields = {"participant_id": turn["participant"]}
            _LOG.warning(
                "participant %(participant_id)r: a run ended without an answer of the model; nothing was recorded",
                fields,
                extra=fields,
            )
            return {"conversation_turn": ended, "messages": _not_said(messages[-1])}
        await self._context.record_exchange(
            turn["participant"],
            turn["text"],
            answer,
            turn_id=turn["request"],
            timestamp=instant(turn["asked"]),
        )
        return {"conversation_turn": ended}

    def _now(self, turn: Turn, shown: Sequence[ContextBlock]) -> datetime:
        """Return the current time as the model is told it, which moves in steps, and with what is remembered."""
        now, asked = self._context.clock(), instant(turn["asked"])
        told = asked + (now - asked) // _CLOCK_STEP * _CLOCK_STEP
        newest = max((block.time for block in shown), default=told)
        return min(now, max(told, newest)).astimezone(now.tzinfo)

    def _oldest(self, earlier: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return the oldest turns, which are not kept; what may instruct the model stays."""
        starts = [number for number, message in enumerate(earlier) if isinstance(message, HumanMessage)]
        if self._keep_turns is None or len(starts) <= self._keep_turns:
            return []
        oldest = earlier[: starts[-self._keep_turns] if self._keep_turns else len(earlier)]
        kept = {message.id for message in _instructions(oldest)}
        return [message for message in oldest if message.id not in kept]


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A turn, as `manager.CompletedExchange` is one; it is known by its words, as ids may be new with each request."""

    request: str
    response: str
    timestamp_us: int | None = None
    turn_id: str | None = None


def _thread_id(state: TurnState, runtime: Runtime[Any]) -> str:
    thread_id = get_config().get("configurable", {}).get("thread_id")
    if thread_id is None:
        raise ValueError(
            'a run needs configurable.thread_id, which is its participant, or ConversationMiddleware "participant"; '
            "got neither"
        )
    return str(thread_id)


def _index(messages: Sequence[BaseMessage], message_id: str | None) -> int:
    """Return where a message is; -1 if it is not there."""
    return next((number for number, message in enumerate(messages) if message.id == message_id), -1)


def _request(messages: Sequence[BaseMessage], known: int) -> int:
    """Return where the request of a run begins: the last message of a person, and those right before it.

    Args:
        messages: All that the agent has.
        known: How many of them earlier runs have had; those are no part of the request if it has any that are new.
    """
    asked = [number for number, message in enumerate(messages) if isinstance(message, HumanMessage)]
    if not asked:
        raise ValueError(f"a run needs a human message, got {len(messages)} messages and none of them is")
    start = asked[-1]
    while start > known and isinstance(messages[start - 1], HumanMessage):
        start -= 1
    return start


def _without_answers(context: ParticipantContext, turn: Turn) -> ParticipantContext:
    """Leave out answers to the request itself: another agent's is among the messages, or it is to be made again."""
    entries = [
        entry
        for entry in context["dialogue"]["entries"]
        if (entry.get("turn_id"), entry.get("request")) != (turn["request"], clean(turn["text"]))
    ]
    return {**context, "dialogue": {**context["dialogue"], "entries": entries}}


def _instructions(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the system messages, each text once."""
    return list(
        {message.text: message for message in messages if isinstance(message, SystemMessage)}.values()
    )


def _dialogue(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    return [message for message in messages if not isinstance(message, SystemMessage)]


def _exchanges(messages: Sequence[AnyMessage]) -> list[_Exchange]:
    """Return the turns of a history, oldest first."""
    said = _dialogue(messages)
    starts = [
        number
        for number, message in enumerate(said)
        if isinstance(message, HumanMessage) and not (number and isinstance(said[number - 1], HumanMessage))
    ]
    turns = [said[start:end] for start, end in pairwise([*starts, len(said)])]
    return [_Exchange(_asked(turn), _answer(turn)) for turn in turns]


def _of_person(turn: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages of the request that a turn begins with."""
    return list(takewhile(lambda message: isinstance(message, HumanMessage), turn))


def _asked(turn: Sequence[AnyMessage]) -> str:
    return "\n\n".join(map(text_of, _of_person(turn)))


def _answer(said: Sequence[AnyMessage]) -> str:
    """Return what a turn ended with; empty if the model gave no answer.

    The last word may be that of tools: of those that return directly, and of structured output.
    """
    results = takewhile(lambda message: isinstance(message, ToolMessage), reversed(said))
    if given := [message for message in results if cast("ToolMessage", message).status != "error"]:
        return "\n\n".join(map(text_of, reversed(given)))
    last = said[-1] if said else None
    if not isinstance(last, AIMessage) or last.tool_calls or _NOT_SAID in last.response_metadata:
        return ""
    return without_reasoning(text_of(last))


def _not_said(last: AnyMessage) -> list[AnyMessage]:
    """Return the last message of a run with the mark that it is no answer of the model, if it may pass for one."""
    if not isinstance(last, AIMessage):
        return []
    return [last.model_copy(update={"response_metadata": {**last.response_metadata, _NOT_SAID: True}})]


__all__ = ["ConversationMiddleware"]
