# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Who remembers: ours and what it is compared with, each within the same bytes of prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from eval.cases import STATUS, Noted, Said
from xr_ai_conversation import CompactionPrompts, ContextManager, Conversation
from xr_ai_conversation.graph.system import SYSTEM_PROMPT
from xr_ai_conversation.state.text import clip, size
from xr_ai_conversation.state.times import shown, stamp


@dataclass(frozen=True, slots=True)
class Models:
    """The chat models of a run; everybody is given the same."""

    name: str
    answers: BaseChatModel
    summaries: BaseChatModel
    """For our compaction requests."""
    prompts: CompactionPrompts
    """What our compaction is told to keep."""
    peer_summaries: BaseChatModel
    """For the summaries of the others, whose prompts it takes as they are."""


class Memory(ABC):
    """Somebody who is told a session step by step, and makes the messages of a request at any point of it."""

    compactions: int = 0
    """How many summaries were made."""

    @abstractmethod
    async def add(self, event: Said | Noted) -> None:
        """Take in what happened; it returns when a summary that is due has been made."""

    @abstractmethod
    async def messages(self, question: str, now: datetime) -> list[BaseMessage]:
        """Return the messages of an answer request; the last is the question."""


class Ours(Memory):
    """A ContextManager whose sections share the budget, and a Conversation over it."""

    def __init__(self, context: ContextManager, conversation: Conversation, clock: _Clock) -> None:
        self.context, self._conversation, self._clock = context, conversation, clock

    async def add(self, event: Said | Noted) -> None:
        """Record or update at the event's time, in its zone, and let compaction settle."""
        self._clock.now = event.time
        if isinstance(event, Said):
            await self.context.record_exchange(
                "p", event.request, event.response, turn_id=event.time.isoformat(), timestamp=event.time
            )
        else:
            await self.context.update("p", event.topic, event.text, timestamp=event.time)
        before = await self._summaries()
        await self.context.settled("p")
        self.compactions += len(await self._summaries() - before)

    async def messages(self, question: str, now: datetime) -> list[BaseMessage]:
        """Return the three messages of an answer."""
        self._clock.now = now
        return await self._conversation.messages("p", question)

    async def _summaries(self) -> set[str]:
        context = await self.context.snapshot("p")
        sections = (context["dialogue"], *context["topics"].values())
        return {found["summary"]["id"] for found in sections if found["summary"]}


class Messages(Memory):
    """A plain list of messages in the order of time; it keeps the newest that fit the budget, as they are.

    Args:
        budget: UTF-8 bytes of all messages between the system message and the question; None is no limit.
    """

    def __init__(self, budget: int | None) -> None:
        self.budget = budget
        self.history: list[BaseMessage] = []

    async def add(self, event: Said | Noted) -> None:
        """Append the messages of an event, with its time."""
        self.history.extend(chat(event))

    async def messages(self, question: str, now: datetime) -> list[BaseMessage]:
        """Return the system message, what is kept, the current time and the question."""
        clock = HumanMessage(f"Current time: {now:%A} {shown(stamp(now))}")
        kept = await self.kept()
        if self.budget is not None:
            kept = self._within(kept, self.budget - size(str(clock.content)))
        return [SystemMessage(SYSTEM_PROMPT), *kept, clock, HumanMessage(question)]

    async def kept(self) -> list[BaseMessage]:
        """Return what a prompt would show if it were endless."""
        return self.history

    def _within(self, messages: Sequence[BaseMessage], room: int) -> list[BaseMessage]:
        kept: list[BaseMessage] = []
        for message in reversed(messages):
            if size(str(message.content)) > room:
                if not kept:
                    kept.append(message.model_copy(update={"content": clip(str(message.content), room)}))
                break
            kept.append(message)
            room -= size(str(message.content))
        return kept[::-1]


class Summarised(Messages):
    """Messages whose oldest are replaced by a summary; what is over the budget after that is cut out of the summary.

    That is the most generous cut: no message is lost for a summary that is too long.
    """

    def _within(self, messages: Sequence[BaseMessage], room: int) -> list[BaseMessage]:
        rest = sum(size(str(message.content)) for message in messages[1:])
        if messages and 0 < room - rest < size(str(messages[0].content)):
            first = messages[0].model_copy(update={"content": clip(str(messages[0].content), room - rest)})
            return [first, *messages[1:]]
        return super()._within(messages, room)


def chat(event: Said | Noted) -> list[BaseMessage]:
    """Return an event as chat messages, with its time, as ours shows it too."""
    time = shown(stamp(event.time))
    if isinstance(event, Noted):
        return [
            HumanMessage(f'Update on "{event.topic}" at {time}:\n{event.text}', id=f"{time} {event.topic}")
        ]
    return [
        HumanMessage(f"At {time}:\n{event.request}", id=f"{time} user"),
        AIMessage(event.response, id=f"{time} assistant"),
    ]


@dataclass
class _Clock:
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


_FRAME = 200
"""Bytes of our context message beside its sections."""

Remembers = Callable[[Models, int, Sequence[str]], AbstractAsyncContextManager[Memory]]
"""Opens a memory: its models, bytes for everything between system message and question, and the topics of the case."""


@asynccontextmanager
async def ours(models: Models, budget: int, topics: Sequence[str]) -> AsyncIterator[Memory]:
    """Open ours; the dialogue has two shares of the budget, and each topic one."""
    clock, share = _Clock(), (budget - _FRAME) // (2 + len(topics))
    async with ContextManager(
        models.summaries,
        incremental_context_topics=[topic for topic in topics if topic != STATUS],
        summary_context_topics=[topic for topic in topics if topic == STATUS],
        dialogue_budget_bytes=2 * share,
        topic_budget_bytes=dict.fromkeys(topics, share),
        compaction_input_budget_bytes=max(budget, share + 256),
        prompts=models.prompts,
        clock=clock,
    ) as context:
        yield Ours(context, Conversation(models.answers, context=context), clock)


@asynccontextmanager
async def window(models: Models, budget: int, topics: Sequence[str]) -> AsyncIterator[Memory]:
    """Open a plain window of the newest messages."""
    yield Messages(budget)


@asynccontextmanager
async def full(models: Models, budget: int, topics: Sequence[str]) -> AsyncIterator[Memory]:
    """Open the full history, whatever the budget."""
    yield Messages(None)


def within(remembers: Remembers, budget: int) -> Remembers:
    """Return a memory that has bytes of its own, whatever the others have."""
    return lambda models, _, topics: remembers(models, budget, topics)


OWN: dict[str, Remembers] = {"ours": ours, "window": window, "full": full}
"""Those that need nothing of others, by name."""

__all__ = [
    "OWN",
    "Memory",
    "Messages",
    "Models",
    "Ours",
    "Remembers",
    "Summarised",
    "chat",
    "full",
    "ours",
    "window",
    "within",
]
