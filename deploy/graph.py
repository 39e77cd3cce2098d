# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The graphs that an Agent Protocol server serves; docs/deployment.md says how.

`managed` is what `aegra.json` names: runs of one thread may overlap, in one process or in several. `whole` is the graph
of `build_graph` itself, whose state the server keeps: there runs of one thread must not overlap. It is what
`langgraph.json` names, for `langgraph dev` and LangGraph Studio. Either takes what
`build_graph` takes, and a thread is a participant. Environment variables say the rest:

    OPENAI_MODEL, OPENAI_BASE_URL, OPENAI_API_KEY   an OpenAI-compatible endpoint; without OPENAI_MODEL the embedded model
    CONVERSATION_DATABASE_URL           where `managed` keeps contexts; another database than the server's own
    CONVERSATION_INSTRUCTIONS           the application's instructions
    CONVERSATION_SUMMARY_TOPICS         names between commas: topics whose updates replace their state
    CONVERSATION_INCREMENTAL_TOPICS     the same, of those whose updates append
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, aclosing
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite

from xr_ai_conversation import CompactionPrompts, ContextManager, Conversation, build_graph, open_saver
from xr_ai_conversation.models import EmbeddedModel, openai_model
from xr_ai_conversation.state.chat import request_of, shown
from xr_ai_conversation.state.participant import (
    ConversationInput,
    ConversationOutput,
    ConversationReply,
    wanted,
)

# A server may ask for its graph at every request; what it runs on is opened at the first, and ends with the process.
_OPENED = AsyncExitStack()
_OPENING = asyncio.Lock()
_GRAPHS: dict[str, Any] = {}


async def managed() -> Any:
    """Return a graph of one step over a `ContextManager`; commits of all processes come one after the other."""
    async with _OPENING:
        if "managed" not in _GRAPHS:
            answers, summaries, prompts = await _models()
            saver = await _OPENED.enter_async_context(open_saver(os.environ["CONVERSATION_DATABASE_URL"]))
            context = await _OPENED.enter_async_context(
                ContextManager(summaries, prompts=prompts, checkpointer=saver, **_topics())
            )
            _GRAPHS["managed"] = _over(
                context, Conversation(answers, context=context, instructions=_instructions())
            )
        return _GRAPHS["managed"]


async def whole() -> Any:
    """Return the graph of `build_graph`; the server puts its own saver in."""
    async with _OPENING:
        if "whole" not in _GRAPHS:
            answers, summaries, prompts = await _models()
            graph = build_graph(
                answers, summary_llm=summaries, instructions=_instructions(), prompts=prompts, **_topics()
            )
            _GRAPHS["whole"] = graph.compile()
        return _GRAPHS["whole"]


def _over(context: ContextManager, conversation: Conversation) -> Any:
    async def step(state: ConversationInput, config: RunnableConfig) -> dict[str, Any]:
        participant = config["configurable"]["thread_id"]
        if state.get("forget"):
            await context.clear(participant)
            return {"messages": Overwrite([])}
        if "text" in state or "topic" in state:
            await context.update(participant, state.get("topic") or "", state.get("text", ""))
            return {}
        write, said = get_stream_writer(), []
        request = state["request"] if "request" in state else request_of(state.get("messages", ()))
        async with aclosing(conversation.stream(participant, request)) as pieces:
            async for piece in pieces:
                said.append(piece)
                write(piece)
        entries = (await context.snapshot(participant))["dialogue"]["entries"]
        return {"reply": "".join(said), "messages": Overwrite(shown(entries, state.get("messages", ())))}

    async def leads(given: dict[str, Any]) -> str:
        return END if wanted(given) == "nothing" else "conversation"

    # built upon a state without the input, so that the choice of the edge is given that as it came
    graph = StateGraph(ConversationReply, input_schema=ConversationInput, output_schema=ConversationOutput)
    graph.add_node("conversation", step, input_schema=ConversationInput)
    graph.add_conditional_edges(START, leads, ["conversation", END])
    graph.add_edge("conversation", END)
    return graph.compile()


async def _models() -> tuple[BaseChatModel, BaseChatModel, CompactionPrompts]:
    if os.environ.get("OPENAI_MODEL"):
        model = openai_model()
        return model, model, CompactionPrompts()
    embedded = await _OPENED.enter_async_context(EmbeddedModel())
    return embedded.answers, embedded.summaries, embedded.prompts


def _topics() -> dict[str, Any]:
    return {
        "summary_context_topics": _names("CONVERSATION_SUMMARY_TOPICS"),
        "incremental_context_topics": _names("CONVERSATION_INCREMENTAL_TOPICS"),
    }


def _names(setting: str) -> list[str]:
    return [name.strip() for name in os.environ.get(setting, "").split(",") if name.strip()]


def _instructions() -> str:
    return os.environ.get("CONVERSATION_INSTRUCTIONS", "")
