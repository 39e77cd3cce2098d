# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A participant's thread as a person inspects it: its history, a fork from it, and edits of its context."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from conftest import OpenSaver
from fakes.chat import ScriptedModel, texts
from fakes.clock import Clock
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from xr_ai_conversation import ContextSchemaError, build_graph

P: RunnableConfig = {"configurable": {"thread_id": "p"}}
NODES = ["answer", "record", "update", "compact", "clear"]


class Damaged(TypedDict, total=False):
    """The state of a graph that writes a context without any rule."""

    context: dict[str, Any]


async def test_a_fork_answers_from_the_context_as_of_then(open_saver: OpenSaver, clock: Clock) -> None:
    llm = ScriptedModel()
    async with open_saver() as saver:
        graph = build_graph(llm, clock=clock).compile(checkpointer=saver)
        for number in range(3):
            await graph.ainvoke({"request": f"<{number}>"}, P)
        ends = [state async for state in graph.aget_state_history(P) if not state.next]
        assert [len(end.values["context"]["dialogue"]["entries"]) for end in ends] == [3, 2, 1]
        await graph.ainvoke({"request": "What now?"}, ends[-1].config)
        found = (await graph.aget_state(P)).values["context"]["dialogue"]["entries"]
    context = texts(llm.requests[-1])[1]
    assert "user> <0>" in context
    assert "user> <1>" not in context
    assert [entry["request"] for entry in found] == ["<0>", "What now?"]


@pytest.mark.parametrize("node", [*NODES, None])
async def test_an_edit_that_breaks_a_rule_is_refused_and_nothing_is_written(
    clock: Clock, node: str | None
) -> None:
    saver = InMemorySaver()
    graph = build_graph(ScriptedModel(), clock=clock).compile(checkpointer=saver)
    for number in range(2):
        await graph.ainvoke({"request": f"<{number}>"}, P)
        clock.move(minutes=1)
    before = await graph.aget_state(P)
    context = deepcopy(before.values["context"])
    context["dialogue"]["entries"].reverse()
    rows = sum(map(len, saver.writes.values()))
    with pytest.raises(ValueError, match="order of their times"):
        await graph.aupdate_state(P, {"context": context}, as_node=node)
    assert await graph.aget_state(P) == before
    assert sum(map(len, saver.writes.values())) == rows


@pytest.mark.parametrize("node", NODES)
async def test_an_edit_that_keeps_the_rules_is_what_the_next_answer_sees(
    open_saver: OpenSaver, clock: Clock, node: str
) -> None:
    llm = ScriptedModel()
    async with open_saver() as saver:
        graph = build_graph(llm, clock=clock).compile(checkpointer=saver)
        await graph.ainvoke({"request": "Hello"}, P)
        values = deepcopy((await graph.aget_state(P)).values)
        values["context"]["dialogue"]["entries"][0]["response"] = "CORRECTED"
        await graph.aupdate_state(P, values, as_node=node)
        assert (await graph.aget_state(P)).values == values
        found = await graph.ainvoke({"request": "Again"}, P)
    assert "assistant> CORRECTED" in texts(llm.requests[-1])[1]
    assert [message["content"] for message in found["messages"]] == ["Hello", "CORRECTED", "Again", "ok"]


async def test_a_context_can_be_put_into_a_new_thread(clock: Clock) -> None:
    graph = build_graph(ScriptedModel(), clock=clock).compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"request": "Hello"}, P)
    context = (await graph.aget_state(P)).values["context"]
    copy: RunnableConfig = {"configurable": {"thread_id": "copy"}}
    await graph.aupdate_state(copy, {"context": context}, as_node="record")
    assert (await graph.aget_state(copy)).values["context"] == context


SAID = {"id": "x", "time": "2026-10-01T09:00:00.000000+00:00", "request": "Hi", "response": "Hello"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (7, "valid list"),
        ([{}], "Unable to extract tag"),
        ([{"op": "erase"}], "does not match any of the expected tags"),
        ([{"op": "record", "exchanges": [{**SAID, "time": "yesterday"}], "identities": [""]}], "time"),
        ([{"op": "record", "exchanges": [SAID], "identities": ["short"]}], "must be empty or have 16"),
        ([{"op": "append", "topic": "notes", "update": {"id": "u", "text": "Hi"}}], "update.time"),
        ([{"op": "compact", "topic": None, "covered": ["x"]}], "summary"),
        ([{"op": "clear", "really": True}], "really"),
    ],
)
async def test_an_operation_that_is_none_is_refused_and_nothing_is_written(
    clock: Clock, given: Any, told: str
) -> None:
    graph = build_graph(ScriptedModel(), clock=clock).compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"request": "Hello"}, P)
    before = await graph.aget_state(P)
    with pytest.raises(ValueError, match=f"the edit is refused: an operation is wrong at .*{told}"):
        await graph.aupdate_state(P, {"context": given})
    assert await graph.aget_state(P) == before


async def test_a_thread_that_is_damaged_can_be_forgotten(open_saver: OpenSaver, clock: Clock) -> None:
    async with open_saver() as saver:
        other = StateGraph(Damaged).add_node("record", lambda _: {"context": {"schema_version": 2}})
        await other.add_edge(START, "record").compile(checkpointer=saver).ainvoke({}, P)
        graph = build_graph(ScriptedModel(), clock=clock).compile(checkpointer=saver)
        with pytest.raises(ContextSchemaError):
            await graph.ainvoke({"request": "Hello"}, P)
        await graph.ainvoke({"forget": True}, P)
        found = await graph.ainvoke({"request": "Hello"}, P)
    assert found["reply"] == "ok"
