# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Three memories by others, each with its own prompts, its budgets in our bytes; they need the group `peers`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langgraph.runtime import Runtime
from langmem.short_term import RunningSummary, asummarize_messages
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    CompactionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models import (
    _conversation_summary_text,  # how its adapters send a summary; it has no public name
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.compaction import SummarizingCompaction, compact_now, estimate_token_count

from eval.cases import Noted, Said
from eval.memories import Memory, Models, Summarised, chat
from xr_ai_conversation.nodes.message import text_of
from xr_ai_conversation.state.text import size


def _bytes(messages: Iterable[Any]) -> int:
    return sum(size(str(message.content)) for message in messages)


class LangChain(Summarised):
    """LangChain's SummarizationMiddleware: over the budget, all but the newest half of it is summarised."""

    def __init__(self, llm: BaseChatModel, budget: int) -> None:
        super().__init__(budget)
        self._middleware = SummarizationMiddleware(
            llm,
            trigger=("tokens", budget * 3 // 4),
            keep=("tokens", budget // 2),
            token_counter=_bytes,
            trim_tokens_to_summarize=None,
        )

    async def add(self, event: Said | Noted) -> None:
        """Append the messages of an event, and summarise as before a model call."""
        await super().add(event)
        update = await self._middleware.abefore_model({"messages": cast("Any", self.history)}, Runtime())
        if update:
            self.compactions += 1
            self.history = [m for m in update["messages"] if not isinstance(m, RemoveMessage)]


class LangMem(Summarised):
    """langmem's summarisation, as its node drives it; the summary is limited to a quarter of the budget by design."""

    def __init__(self, llm: BaseChatModel, budget: int) -> None:
        super().__init__(budget)
        self._llm = llm
        self._limit = budget
        self._running: RunningSummary | None = None
        self._shown: list[BaseMessage] = []

    async def add(self, event: Said | Noted) -> None:
        """Append the messages of an event, and summarise as before a model call."""
        await super().add(event)
        before = self._running and self._running.last_summarized_message_id
        result = await asummarize_messages(
            cast("list[AnyMessage]", self.history),
            running_summary=self._running,
            model=self._llm,
            max_tokens=self._limit,
            max_tokens_before_summary=self._limit * 3 // 4,
            max_summary_tokens=self._limit // 4,
            token_counter=_bytes,
        )
        self._running, self._shown = result.running_summary or self._running, list(result.messages)
        self.compactions += (self._running and self._running.last_summarized_message_id) != before

    async def kept(self) -> list[BaseMessage]:
        """Return the summary and what came after it."""
        return self._shown


class Harness(Summarised):
    """pydantic-ai-harness' SummarizingCompaction: over the budget, all but the newest half of it is summarised."""

    def __init__(self, llm: BaseChatModel, budget: int) -> None:
        super().__init__(budget)
        self._parts: list[ModelMessage] = []
        self._limit = budget
        self._model = FunctionModel(_answering(llm))
        self._strategy: SummarizingCompaction[None] = SummarizingCompaction(
            max_tokens=budget * 3 // 4,
            keep_tokens=budget // 2,
            tokenizer=size,
            preserve_first_user_message=False,
        )

    async def add(self, event: Said | Noted) -> None:
        """Append the messages of an event, and compact as before a model call."""
        for message in chat(event):
            text = str(message.content)
            self._parts.append(
                ModelResponse(parts=[TextPart(text)])
                if isinstance(message, AIMessage)
                else ModelRequest(parts=[UserPromptPart(text)])
            )
        if estimate_token_count(self._parts, size) > self._limit * 3 // 4:
            try:
                before = self._parts
                self._parts = await compact_now(self._strategy, self._parts, model=self._model)
                self.compactions += self._parts is not before
            except UnexpectedModelBehavior:
                pass  # the summary was empty twice; an agent's answer would fail here

    async def kept(self) -> list[BaseMessage]:
        """Return the messages as the adapters of pydantic-ai send them."""
        return [message for part in self._parts for message in _sent(part)]


def _answering(llm: BaseChatModel) -> Any:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent = [message for part in messages for message in _sent(part)]
        system = [SystemMessage(info.instructions)] if info.instructions else []
        return ModelResponse(parts=[TextPart(text_of(await llm.ainvoke([*system, *sent])))])

    return answer


def _sent(message: ModelMessage) -> list[BaseMessage]:
    sent: list[BaseMessage] = []
    for part in message.parts:
        if isinstance(part, CompactionPart):
            sent.append(HumanMessage(_conversation_summary_text(part.content)))
        elif isinstance(part, UserPromptPart):
            sent.append(HumanMessage(str(part.content)))
        elif isinstance(part, SystemPromptPart):
            sent.append(SystemMessage(part.content))
        elif isinstance(part, TextPart):
            sent.append(AIMessage(part.content))
    return sent


@asynccontextmanager
async def langchain(models: Models, budget: int, topics: Sequence[str]) -> AsyncIterator[Memory]:
    """Open LangChain's."""
    yield LangChain(models.peer_summaries, budget)


@asynccontextmanager
async def langmem(models: Models, budget: int, topics: Sequence[str]) -> AsyncIterator[Memory]:
    """Open langmem's."""
    yield LangMem(models.peer_summaries, budget)


@asynccontextmanager
async def harness(models: Models, budget: int, topics: Sequence[str]) -> AsyncIterator[Memory]:
    """Open pydantic-ai-harness'."""
    yield Harness(models.peer_summaries, budget)


PEERS = {"langchain": langchain, "langmem": langmem, "harness": harness}
"""By name."""

__all__ = ["PEERS", "Harness", "LangChain", "LangMem"]
