# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Where an agent goes wrong that summarises with LangChain's own middleware, and one that remembers with ours does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fakes.chat import Piece, ScriptedModel, calls, replies, says, texts
from fakes.clock import Clock
from fakes.summariser import Summariser
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from recorded import requests

from xr_ai_conversation import ContextManager, ConversationMiddleware

SAID = "x" * 900


@tool
def look(number: int) -> str:
    """Look."""
    return SAID


def peer(model: ScriptedModel, summaries: ScriptedModel, *others: Any) -> Any:
    middleware: SummarizationMiddleware[Any, Any] = SummarizationMiddleware(
        summaries, trigger=("tokens", 1_000), keep=("messages", 4)
    )
    return create_agent(model, [look], middleware=[middleware, *others], checkpointer=InMemorySaver())


def ours(model: ScriptedModel, context: ContextManager, *others: Any) -> Any:
    return create_agent(
        model, [look], middleware=[ConversationMiddleware(context), *others], checkpointer=InMemorySaver()
    )


def remembering(summaries: ScriptedModel) -> ContextManager:
    """Return a manager that keeps about as much as the peer."""
    return ContextManager(summaries, dialogue_budget_bytes=4_000, clock=Clock())


def long_answers() -> ScriptedModel:
    return ScriptedModel(script=says(SAID))


async def ask(agent: Any, text: str) -> str:
    result = await agent.ainvoke({"messages": text}, {"configurable": {"thread_id": "p"}})
    said = result["messages"][-1].text
    assert isinstance(said, str)
    return said


async def talk(agent: Any, turns: int) -> None:
    for number in range(turns):
        await ask(agent, f"Question {number}?")


def prompt(request: list[BaseMessage]) -> str:
    return "\n".join(texts(request))


async def test_no_turn_waits_for_a_summary() -> None:
    summariser, model = Summariser(), long_answers()
    turns = asyncio.create_task(talk(peer(model, summariser.model), 10))
    await summariser.begun.wait()
    asked = len(model.requests)
    summariser.release.set()
    await turns
    assert asked < 10  # the turn that began the summary had not called its model

    summariser = Summariser()
    async with remembering(summariser.model) as context:
        await talk(ours(long_answers(), context), 10)
        assert summariser.begun.is_set() and len(await requests(context)) == 10


async def test_a_summary_that_fails_costs_no_answer() -> None:
    failing = ScriptedModel(script=says(ValueError("away")))
    with pytest.raises(ValueError, match="away"):
        await talk(peer(long_answers(), failing), 10)

    async with remembering(ScriptedModel(script=says(ValueError("away")))) as context:
        await talk(ours(long_answers(), context), 10)
        await context.settled()
        assert len(await requests(context)) == 10


async def test_an_empty_summary_replaces_nothing() -> None:
    model = long_answers()
    await talk(peer(model, ScriptedModel(script=says(""))), 10)
    assert "Question 0?" not in prompt(model.requests[-1])

    summaries = ScriptedModel(script=says(""))
    async with remembering(summaries) as context:
        await talk(ours(long_answers(), context), 10)
        await context.settled()
        assert await requests(context) == [f"Question {number}?" for number in range(10)]
        assert len(summaries.requests) <= 10


async def test_a_summary_that_saves_nothing_is_not_asked_for_again_with_every_turn() -> None:
    async def after_it(agent: Any, summaries: ScriptedModel, settled: Any) -> int:
        await talk(agent, 6)
        await ask(agent, "Well?")  # the newest answer is not summarised before there is a newer one
        await settled()
        before = len(summaries.requests)
        for number in range(5):
            await ask(agent, f"Well {number}?")
            await settled()
        return len(summaries.requests) - before

    def answers() -> ScriptedModel:
        return ScriptedModel(script=replies(lambda sent: SAID if "Question" in sent[-1].text else "Yes."))

    async def at_once() -> None:
        pass

    long = ScriptedModel(script=says("S" * 20_000))
    assert await after_it(peer(answers(), long), long, at_once) == 5

    summaries = ScriptedModel(script=says("S" * 20_000))
    async with remembering(summaries) as context:
        assert await after_it(ours(answers(), context), summaries, context.settled) == 0


async def test_the_request_of_a_long_tool_loop_is_never_summarised_away() -> None:
    def looks(sent: list[BaseMessage]) -> str | AIMessageChunk:
        seen = sum(isinstance(message, AIMessage) for message in sent)
        return calls(("look", {"number": seen})) if len(model.requests) < 12 else "Done."

    model = ScriptedModel(script=replies(looks))
    await ask(peer(model, ScriptedModel(script=says("They looked about."))), "Look until you see a pump.")
    assert "Look until you see a pump." not in prompt(model.requests[-1])

    model = ScriptedModel(script=replies(looks))
    async with remembering(ScriptedModel()) as context:
        await ask(ours(model, context), "Look until you see a pump.")
        assert texts(model.requests[-1])[1] == "Look until you see a pump."
        assert sum(isinstance(message, ToolMessage) for message in model.requests[-1]) == 11


async def test_a_call_that_nobody_approved_is_not_left_without_its_result() -> None:
    def unanswered(sent: list[BaseMessage]) -> set[str | None]:
        asked = {
            call["id"] for message in sent if isinstance(message, AIMessage) for call in message.tool_calls
        }
        return asked - {message.tool_call_id for message in sent if isinstance(message, ToolMessage)}

    def looks(sent: list[BaseMessage]) -> str | AIMessageChunk:
        return calls(("look", {"number": 1})) if sent[-1].text == "Look." else "Well then."

    approval = HumanInTheLoopMiddleware(interrupt_on={"look": True})
    model = ScriptedModel(script=replies(looks))
    agent = peer(model, ScriptedModel(), approval)
    await ask(agent, "Look.")
    await ask(agent, "Never mind.")
    assert unanswered(model.requests[-1])

    model = ScriptedModel(script=replies(looks))
    async with remembering(ScriptedModel()) as context:
        agent = ours(model, context, approval)
        await ask(agent, "Look.")
        await ask(agent, "Never mind.")
        assert not unanswered(model.requests[-1])
        assert await requests(context) == ["Never mind."]


async def test_a_question_that_failed_is_not_answered_later() -> None:
    def script() -> ScriptedModel:
        async def answers(sent: list[BaseMessage]) -> AsyncIterator[Piece]:
            yield RuntimeError("away") if sent[-1].text == "Open the door." else "Fine."

        return ScriptedModel(script=answers)

    async def both(agent: Any) -> None:
        with pytest.raises(RuntimeError):
            await ask(agent, "Open the door.")
        await ask(agent, "How are you?")

    model = script()
    await both(peer(model, ScriptedModel()))
    assert "Open the door." in prompt(model.requests[-1])

    model = script()
    async with remembering(ScriptedModel()) as context:
        await both(ours(model, context))
        assert "Open the door." not in prompt(model.requests[-1])


async def test_a_summary_is_made_of_all_that_it_replaces() -> None:
    summaries = ScriptedModel(script=says("They spoke."))
    agent = peer(long_answers(), summaries)
    await agent.aupdate_state(
        {"configurable": {"thread_id": "p"}},
        {
            "messages": [
                ("human" if number % 2 == 0 else "ai", f"fact-{number}. {SAID}") for number in range(40)
            ]
        },
    )
    await ask(agent, "Well?")
    assert "fact-0." not in prompt(summaries.requests[0])

    summaries = ScriptedModel(script=says("They spoke."))
    async with remembering(summaries) as context:
        agent = ours(long_answers(), context)
        history = [("human" if n % 2 == 0 else "ai", f"fact-{n}. {SAID}") for n in range(40)]
        await agent.ainvoke(
            {"messages": [*history, ("human", "Well?")]}, {"configurable": {"thread_id": "p"}}
        )
        await context.settled()
        sent = "\n".join(prompt(request) for request in summaries.requests)
        assert all(f"fact-{number}." in sent for number in range(40))


@pytest.mark.parametrize("size", [30_000, 300_000])
async def test_a_request_of_any_length_is_sent_whole_beside_a_context_within_its_budget(size: int) -> None:
    model = long_answers()
    async with remembering(ScriptedModel(script=says("They spoke."))) as context:
        agent = ours(model, context)
        await talk(agent, 20)
        await ask(agent, "é" * size)
        await ask(agent, "And now?")
        assert texts(model.requests[-2])[1] == "é" * size
        assert max(len(texts(sent)[0].encode()) for sent in model.requests) <= 4_000 + 300


async def test_what_is_sent_and_what_the_agent_keeps_do_not_grow_with_the_turns() -> None:
    model = long_answers()
    async with remembering(ScriptedModel(script=says("They spoke."))) as context:
        agent = ours(model, context)
        sizes = []
        for _ in range(6):
            await talk(agent, 10)
            await context.settled()
            state = await agent.aget_state({"configurable": {"thread_id": "p"}})
            sizes.append((len(prompt(model.requests[-1])) // 1_000, len(state.values["messages"])))
        assert max(kept for _, kept in sizes) == 22
        assert max(sent for sent, _ in sizes) <= 4
