# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Those that are compared, each over a model that is watched and a saver, and the one way in which their turns are timed."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NoReturn, TypeAlias

from fakes.chat import ScriptedModel, says
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    UsageMetadata,
)
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.graph.stores import Saver
from xr_ai_conversation.xr import AgentExchange

SYSTEM = "You are a helpful assistant. Answer in one short sentence."
ASKED, SAID = "What do you know about it? " * 4, "It was checked and looks fine. " * 8
SUMMARY = "They spoke of it."
TOPICS = ("notes", "camera")
"""An incremental topic, and a summary topic."""

_PEER_TOKENS = 2_000
"""Where the peers summarise, as they count tokens: about the bytes of our default budget of the dialogue."""
_PRUNING = "prune a thread"


class Watched(BaseChatModel):
    """A model that notes when it was asked last, and what that took."""

    inner: BaseChatModel
    asked: float = 0.0
    messages: list[BaseMessage] = []  # noqa: RUF012 - pydantic copies it
    usage: UsageMetadata | None = None

    @property
    def _llm_type(self) -> str:
        return "watched"

    def _generate(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("a watched model streams")

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, *_: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.asked, self.messages = time.perf_counter(), messages
        async for chunk in self.inner._astream(messages, stop, **kwargs):
            assert isinstance(chunk.message, AIMessageChunk)
            self.usage = chunk.message.usage_metadata or self.usage
            yield chunk


@dataclass
class Contender(ABC):
    """One of those that are compared."""

    model: Watched

    @abstractmethod
    async def fill(self, participant: str, exchanges: int) -> None:
        """Give a participant a past of so many exchanges, some of them summarised by now."""

    @abstractmethod
    def stream(self, participant: str, text: str) -> AsyncGenerator[str, None]:
        """Take a turn."""

    @abstractmethod
    async def publish(self, participant: str, topic: str, text: str) -> None:
        """Take in what another agent says of a participant."""

    async def rest(self) -> float:
        """Return when nothing runs in the background, and the milliseconds that a pruning took; 0 is none."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """How long a turn took, from the call."""

    request_ms: float
    """Until the model was asked."""
    first_ms: float
    """Until the first piece of the answer came."""
    whole_ms: float
    """Until the stream had ended, and all was stored."""


async def taken(contender: Contender, participant: str, text: str) -> Turn:
    """Take a turn and tell how long it took."""
    first = 0.0
    began = time.perf_counter()
    async with aclosing(contender.stream(participant, text)) as pieces:
        async for _ in pieces:
            first = first or time.perf_counter()
    ended = time.perf_counter()
    return Turn(*((then - began) * 1e3 for then in (contender.model.asked, first, ended)))


@dataclass
class Ours(Contender):
    """A conversation and its manager."""

    context: ContextManager
    talk: Conversation

    async def fill(self, participant: str, exchanges: int) -> None:
        """Take in a router's history, a hundred exchanges at a time."""
        past = [AgentExchange(f"{number}: {ASKED}", SAID) for number in range(exchanges)]
        for start in range(0, exchanges, 100):
            await self.context.reconcile(participant, past[start : start + 100])
            await self.rest()

    def stream(self, participant: str, text: str) -> AsyncGenerator[str, None]:
        """Take a turn."""
        return self.talk.stream(participant, text)

    async def publish(self, participant: str, topic: str, text: str) -> None:
        """Update the topic."""
        await self.context.update(participant, topic, text)

    async def rest(self) -> float:
        """Return when nothing is compacted or pruned, and the milliseconds that a pruning took; 0 is none."""
        await self.context.settled()
        prunings = [task for task in asyncio.all_tasks() if task.get_name() == _PRUNING]
        if not prunings:
            return 0.0
        began = time.perf_counter()
        await asyncio.wait(prunings)
        return (time.perf_counter() - began) * 1e3


@dataclass
class Bare(Contender):
    """The model alone, with all that was said."""

    said: dict[str, list[BaseMessage]] = field(default_factory=dict)

    async def fill(self, participant: str, exchanges: int) -> None:
        """Keep a past."""
        self.said[participant] = [SystemMessage(SYSTEM), *_past(exchanges)]

    async def stream(self, participant: str, text: str) -> AsyncGenerator[str, None]:
        """Ask, and keep what was said."""
        said = self.said.setdefault(participant, [SystemMessage(SYSTEM)])
        said.append(HumanMessage(text))
        pieces: list[str] = []
        async for chunk in self.model.astream(said):
            if chunk.text:
                pieces.append(chunk.text)
                yield chunk.text
        said.append(AIMessage("".join(pieces)))

    async def publish(self, participant: str, topic: str, text: str) -> None:
        """Keep it as one more message."""
        self.said.setdefault(participant, [SystemMessage(SYSTEM)]).append(_published(topic, text))


@dataclass
class Peer(Contender):
    """A graph of messages with a saver, each thread a participant."""

    graph: Any  # Any: its type has parameters that nothing here needs
    speaker: str
    """The node that answers; others have messages in their stream too."""
    published: dict[str, list[AnyMessage]] = field(default_factory=dict)

    async def fill(self, participant: str, exchanges: int) -> None:
        """Store a past at once, and take a turn, which summarises it."""
        if exchanges > 1:
            past = {"messages": _past(exchanges - 1)}
            await self.graph.aupdate_state(_thread(participant), past, as_node="__start__")
        async with aclosing(self.stream(participant, f"0: {ASKED}")) as pieces:
            async for _ in pieces:
                pass

    async def stream(self, participant: str, text: str) -> AsyncGenerator[str, None]:
        """Take a turn, given what was published since the last one."""
        given = {"messages": [*self.published.pop(participant, []), HumanMessage(text)]}
        parts = self.graph.astream(given, _thread(participant), stream_mode="messages")
        async for chunk, metadata in parts:
            if metadata["langgraph_node"] == self.speaker and chunk.text:
                yield chunk.text

    async def publish(self, participant: str, topic: str, text: str) -> None:
        """Keep it for the next turn, as one more message."""
        self.published.setdefault(participant, []).append(_published(topic, text))


def _past(exchanges: int) -> list[BaseMessage]:
    return [
        message
        for number in range(exchanges)
        for message in (HumanMessage(f"{number}: {ASKED}", id=f"h{number}"), AIMessage(SAID, id=f"a{number}"))
    ]


def _published(topic: str, text: str) -> HumanMessage:
    return HumanMessage(f"[{topic}] {text}")


def _thread(participant: str) -> RunnableConfig:
    return {"configurable": {"thread_id": participant}}


Opener: TypeAlias = Callable[[BaseChatModel, BaseChatModel, Saver], AbstractAsyncContextManager[Contender]]
"""Opens a contender over the model that answers, the one that summarises, and a new saver."""


@asynccontextmanager
async def ours(model: BaseChatModel, summariser: BaseChatModel, saver: Saver) -> AsyncIterator[Contender]:
    """Open a manager and a conversation with the default budgets."""
    async with ContextManager(
        summariser,
        incremental_context_topics=TOPICS[:1],
        summary_context_topics=TOPICS[1:],
        checkpointer=saver,
    ) as context:
        watched = Watched(inner=model)
        yield Ours(watched, context, Conversation(watched, context=context, system_prompt=SYSTEM))


@asynccontextmanager
async def bare(model: BaseChatModel, summariser: BaseChatModel, saver: Saver) -> AsyncIterator[Contender]:
    """Open the model alone; it has no use for the others."""
    yield Bare(Watched(inner=model))


@asynccontextmanager
async def langchain(
    model: BaseChatModel, summariser: BaseChatModel, saver: Saver
) -> AsyncIterator[Contender]:
    """Open LangChain's agent with its summarisation middleware, which keeps the last 20 messages."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import SummarizationMiddleware

    watched = Watched(inner=model)
    middleware = SummarizationMiddleware(model=summariser, trigger=("tokens", _PEER_TOKENS))
    agent = create_agent(watched, system_prompt=SYSTEM, middleware=[middleware], checkpointer=saver)
    yield Peer(watched, agent, "model")


@asynccontextmanager
async def langmem(model: BaseChatModel, summariser: BaseChatModel, saver: Saver) -> AsyncIterator[Contender]:
    """Open a graph with langmem's summarisation node, as its documentation builds it: all messages stay in the state."""
    from langgraph.graph import START, MessagesState, StateGraph
    from langmem.short_term import RunningSummary, SummarizationNode

    class State(MessagesState):
        context: dict[str, Any]

    class Given(MessagesState):
        summarized_messages: list[AnyMessage]
        context: dict[str, Any]

    watched = Watched(inner=model)

    async def answer(state: Given) -> dict[str, Any]:
        asked = [SystemMessage(SYSTEM), *state["summarized_messages"]]
        return {"messages": [await watched.ainvoke(asked)]}

    kind = RunningSummary
    saver.serde = JsonPlusSerializer(allowed_msgpack_modules=[(kind.__module__, kind.__name__)])
    node = SummarizationNode(
        model=summariser, max_tokens=_PEER_TOKENS, max_tokens_before_summary=_PEER_TOKENS
    )
    graph = StateGraph(State)
    graph.add_node("summarize", node)
    graph.add_node("answer", answer, input_schema=Given)
    graph.add_edge(START, "summarize")
    graph.add_edge("summarize", "answer")
    yield Peer(watched, graph.compile(checkpointer=saver), "answer")


OURS, BARE, LANGCHAIN, LANGMEM = "ours", "the bare model", "LangChain", "langmem"
COLORS = {OURS: "tab:blue", BARE: "tab:gray", LANGCHAIN: "tab:orange", LANGMEM: "tab:green"}
CONTENDERS: dict[str, Opener] = {OURS: ours, BARE: bare, LANGCHAIN: langchain}
if find_spec("langmem"):
    CONTENDERS[LANGMEM] = langmem


def quick_model() -> ScriptedModel:
    """Return a fake model that answers at once."""
    return ScriptedModel(script=says(SAID))


def quick_summariser() -> BaseChatModel:
    """Return a fake model that summarises at once."""
    return ScriptedModel(script=says(SUMMARY))


__all__ = [
    "ASKED", "BARE", "COLORS", "CONTENDERS", "LANGCHAIN", "LANGMEM", "OURS", "SAID", "SUMMARY", "SYSTEM", "TOPICS",
    "Contender", "Opener", "Ours", "Turn", "Watched", "quick_model", "quick_summariser", "taken",
]  # fmt: skip
