# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a run of the whole graph may be given: text, chat messages, an update; and what it makes of anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import OpenSaver
from fakes.chat import ScriptedModel, asks_for_summary, replies, says, texts
from fakes.clock import Clock
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from xr_ai_conversation import build_graph

P: RunnableConfig = {"configurable": {"thread_id": "p"}}


def answers_or_summarises(messages: list[BaseMessage]) -> str:
    return "SUMMARY" if asks_for_summary(messages) else "ANSWER"


@pytest.fixture
def llm() -> ScriptedModel:
    return ScriptedModel(script=replies(answers_or_summarises))


@pytest.fixture
def graph(llm: ScriptedModel, clock: Clock) -> Any:
    return build_graph(llm, clock=clock, incremental_context_topics=["notes"]).compile(
        checkpointer=InMemorySaver()
    )


async def test_a_run_with_nothing_in_it_changes_nothing_when_nothing_is_due(
    graph: Any, llm: ScriptedModel
) -> None:
    await graph.ainvoke({"request": "Hello"}, P)
    before = (await graph.aget_state(P)).values
    nothing: dict[str, Any]
    for nothing in ({}, {"request": None, "messages": [], "forget": False}):
        await graph.ainvoke(nothing, P)
        assert (await graph.aget_state(P)).values == before
    assert len(llm.requests) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"request": "x", "topic": "notes", "text": "y"}, "got request, text, topic"),
        ({"request": "x", "messages": ["y"]}, "got messages, request"),
        ({"request": "x", "forget": True}, "got forget, request"),
        ({"question": "x"}, "one of request, messages, topic and text, forget, got question"),
        ({"request": " "}, "request must be text that is not blank, got blank text"),
        ({"topic": "notes"}, "an update must have a topic and a text, got topic alone"),
        ({"topic": None, "text": "x"}, "an update must have a topic and a text, got text alone"),
        ({"request": 7}, "request must be text that is not blank, got int"),
        ({"forget": "yes"}, "forget must be true or false, got str"),
        ({"messages": [{"type": "ai", "content": "x"}]}, "a human message with text, got ai"),
        ({"messages": [{"type": "human", "content": [{"type": "image_url"}]}]}, "human message with text"),
        ({"messages": [{"text": "x"}]}, "messages must be a list of messages"),
        ({"messages": 7}, "messages must be a list of messages"),
    ],
)
async def test_an_input_that_is_not_allowed_is_refused_and_leaves_a_thread_that_works(
    open_saver: OpenSaver, llm: ScriptedModel, clock: Clock, given: dict[str, Any], told: str
) -> None:
    async with open_saver() as saver:
        graph: Any = build_graph(llm, clock=clock).compile(checkpointer=saver)
        await graph.ainvoke({"request": "Hello"}, P)
        before = (await graph.aget_state(P)).values["context"]
        with pytest.raises(ValueError, match=told):
            await graph.ainvoke(given, P)
        assert (await graph.aget_state(P)).values["context"] == before
        await graph.ainvoke({"request": "Still there?"}, P)
        found = (await graph.aget_state(P)).values["messages"]
    assert [message["content"] for message in found] == ["Hello", "ANSWER", "Still there?", "ANSWER"]
    assert len(llm.requests) == 2


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("Hello", id="1"),
        HumanMessage([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}], id="1"),
        {"type": "human", "content": "Hello", "id": "1"},
        {"type": "human", "content": [{"type": "text", "text": "Hello"}], "id": "1"},
        {"role": "user", "content": "Hello", "id": "1"},
    ],
)
async def test_the_last_human_message_is_the_request_and_the_answer_is_a_message_of_plain_json(
    open_saver: OpenSaver, llm: ScriptedModel, clock: Clock, message: Any
) -> None:
    async with open_saver() as saver:
        graph: Any = build_graph(llm, clock=clock).compile(checkpointer=saver)
        old = [{"type": "human", "content": "old"}, {"type": "ai", "content": "older"}]
        found = await graph.ainvoke({"messages": [*old, message]}, P)
        state = (await graph.aget_state(P)).values
    assert found["reply"] == "ANSWER"
    assert [(one["type"], one["content"]) for one in found["messages"]] == [
        ("human", "Hello"),
        ("ai", "ANSWER"),
    ]
    assert found["messages"][0]["id"] == "1"
    assert json.loads(json.dumps(state)) == state
    assert state["messages"] == found["messages"]
    assert texts(llm.requests[0])[2] == "Hello"


async def test_a_message_without_an_id_gets_one_that_stays(graph: Any) -> None:
    for _ in range(3):
        found = await graph.ainvoke({"messages": [{"type": "human", "content": "yes"}]}, P)
    ids = [message["id"] for message in found["messages"]]
    assert len(set(ids)) == 6
    found = await graph.ainvoke({"request": "yes"}, P)
    assert [message["id"] for message in found["messages"]][:6] == ids


async def test_the_id_of_an_answer_is_that_of_its_tokens(graph: Any) -> None:
    tokens = [
        chunk
        async for chunk, _ in graph.astream(
            {"messages": [{"type": "human", "content": "Hello"}]}, P, stream_mode="messages"
        )
    ]
    found = (await graph.aget_state(P)).values["messages"]
    assert {token.id for token in tokens} == {found[-1]["id"]}
    assert "".join(token.content for token in tokens) == "ANSWER"


async def test_a_chat_front_end_sees_the_verbatim_dialogue_grow_under_the_same_ids_and_stay_bounded(
    graph: Any, llm: ScriptedModel
) -> None:
    llm.script = replies(lambda m: "SUMMARY" if asks_for_summary(m) else "x" * 900)
    shown: list[dict[str, str]] = []
    for number in range(12):
        asked = {"type": "human", "content": f"<{number}>", "id": f"ui-{number}"}
        async for values in graph.astream({"messages": [asked]}, P, stream_mode="values"):
            ids = [message["id"] for message in values["messages"]]
            assert len(set(ids)) == len(ids)
            assert f"ui-{number}" in ids
        shown, before = values["messages"], shown
        assert [message["content"] for message in shown[-2:]] == [f"<{number}>", "x" * 900]
        assert shown[:-2] == before[len(before) - len(shown[:-2]) :]
        assert sum(len(message["content"]) for message in shown) < 8_000
    assert values["context"]["dialogue"]["summary"]["text"] == "SUMMARY"


async def test_a_message_that_failed_can_be_sent_again_under_its_id(graph: Any, llm: ScriptedModel) -> None:
    asked = {"type": "human", "content": "Hello", "id": "1"}
    llm.script = says(ConnectionError("down"))
    with pytest.raises(ConnectionError):
        await graph.ainvoke({"messages": [asked]}, P)
    llm.script = replies(answers_or_summarises)
    found = await graph.ainvoke({"messages": [asked]}, P)
    assert [message["content"] for message in found["messages"]] == ["Hello", "ANSWER"]


async def test_an_answer_can_be_made_again_from_the_checkpoint_before_it(
    graph: Any, llm: ScriptedModel
) -> None:
    for number in range(2):
        await graph.ainvoke({"messages": [{"type": "human", "content": f"<{number}>"}]}, P)
    llm.script = says("ANOTHER")
    asked = [state async for state in graph.aget_state_history(P) if state.next == ("answer",)]
    found = await graph.ainvoke(None, asked[0].config)
    assert [message["content"] for message in found["messages"]] == ["<0>", "ANSWER", "<1>", "ANOTHER"]
    entries = (await graph.aget_state(P)).values["context"]["dialogue"]["entries"]
    assert [entry["response"] for entry in entries] == ["ANSWER", "ANOTHER"]
