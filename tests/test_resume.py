# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A run of the whole graph that was stopped goes on where it was: nothing is answered twice, recorded twice or lost."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import pytest
from conftest import OpenSaver
from fakes.chat import ScriptedModel, asks_for_summary, replies, says, texts
from fakes.clock import Clock
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from xr_ai_conversation import build_graph

P: RunnableConfig = {"configurable": {"thread_id": "p"}}
NODES = ["answer", "record", "update", "compact", "clear"]

Durability: TypeAlias = Literal["sync", "async", "exit"]
DURABILITIES: list[Durability] = ["sync", "async", "exit"]

LONG = "x" * 1_500
INPUTS: dict[str, dict[str, Any]] = {
    "a request": {"request": f"Where is the key? {LONG}"},
    "a message": {"messages": [{"type": "human", "content": f"Where is the key? {LONG}", "id": "m"}]},
    "an update": {"topic": "notes", "text": f"The key is on the shelf. {LONG}"},
    "the order to forget": {"forget": True},
}


def answers_or_summarises(messages: list[BaseMessage]) -> str:
    return "SUMMARY" if asks_for_summary(messages) else f"ANSWER to {texts(messages)[-1][:20]}"


def whole(clock: Clock, llm: ScriptedModel | None = None) -> Any:
    """Return the builder of a graph that has something to compact at every turn."""
    return build_graph(
        llm or ScriptedModel(script=replies(answers_or_summarises)),
        incremental_context_topics=["notes"],
        dialogue_budget_bytes=2_500,
        topic_budget_bytes=2_500,
        clock=clock,
    )


def told(state: Any) -> Any:
    """Return what is remembered, without ids that are made anew."""
    context = state["context"]
    sections = {"dialogue": context["dialogue"], **context["topics"]}
    return {
        name: (
            found["summary"] and (found["summary"]["text"], found["summary"]["covers"]),
            [(entry.get("request"), entry.get("response"), entry.get("text")) for entry in found["entries"]],
        )
        for name, found in sections.items()
    }, [(message["type"], message["content"]) for message in state["messages"]]


async def before(graph: Any) -> None:
    """Let a thread have something that is summarised, and something that is not."""
    await graph.ainvoke({"request": f"Hello {LONG}"}, P)
    await graph.ainvoke({"topic": "notes", "text": f"It rains. {LONG}"}, P)


async def undisturbed(clock: Clock, given: dict[str, Any]) -> Any:
    graph = whole(clock).compile(checkpointer=InMemorySaver())
    await before(graph)
    await graph.ainvoke(given, P)
    return told((await graph.aget_state(P)).values)


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
async def test_a_run_that_is_interrupted_at_each_node_comes_to_what_it_comes_to_at_once(
    open_saver: OpenSaver, clock: Clock, where: str, given: dict[str, Any], durability: Durability
) -> None:
    llm = ScriptedModel(script=replies(answers_or_summarises))
    async with open_saver() as saver:
        graph = whole(clock, llm).compile(checkpointer=saver)
        await before(graph)
        asked = len(llm.requests)
        stops: Any = {where: NODES, "durability": durability}
        replies_given = [await graph.ainvoke(given, P, **stops)]
        for _ in range(8):
            # each part in a graph of its own, as after a restart
            graph = whole(clock, llm).compile(checkpointer=saver)
            if not (await graph.aget_state(P)).next:
                break
            replies_given.append(await graph.ainvoke(None, P, **stops))
        found = (await graph.aget_state(P)).values
    assert told(found) == await undisturbed(clock, given)
    answers = [sent for sent in llm.requests[asked:] if not asks_for_summary(sent)]
    assert len(answers) == ("request" in given or "messages" in given)
    answer = "ANSWER to Where is the key?"
    assert {one["reply"][: len(answer)] for one in replies_given if one and one.get("reply")} == (
        {answer} if answers else set()
    )
    assert found["exchange"] == {}


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("given", list(INPUTS.values())[:2], ids=list(INPUTS)[:2])
async def test_an_answer_that_failed_is_given_to_the_same_request_when_the_run_is_resumed(
    open_saver: OpenSaver, clock: Clock, given: dict[str, Any], durability: Durability
) -> None:
    llm = ScriptedModel(script=replies(answers_or_summarises))
    async with open_saver() as saver:
        graph = whole(clock, llm).compile(checkpointer=saver)
        await before(graph)
        llm.script = says(OSError("away"))
        with pytest.raises(OSError, match="away"):
            await graph.ainvoke(given, P, durability=durability)
        llm.script = replies(answers_or_summarises)
        await graph.ainvoke(None, P, durability=durability)
        found = (await graph.aget_state(P)).values
    assert told(found) == await undisturbed(clock, given)


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
async def test_what_is_run_again_from_any_checkpoint_comes_to_the_same(
    clock: Clock, given: dict[str, Any]
) -> None:
    graph = whole(clock).compile(checkpointer=InMemorySaver())
    await before(graph)
    last = (await graph.aget_state(P)).config["configurable"]["checkpoint_id"]
    await graph.ainvoke(given, P)
    here = [state async for state in graph.aget_state_history(P)]
    again = 0
    for state in here:
        if state.next and state.config["configurable"]["checkpoint_id"] > last:
            await graph.ainvoke(None, state.config)
            assert told((await graph.aget_state(P)).values) == await undisturbed(clock, given)
            again += 1
    assert again >= 2


async def test_a_request_that_failed_is_not_answered_in_the_place_of_the_next(clock: Clock) -> None:
    llm = ScriptedModel(script=says(OSError("away")))
    graph = whole(clock, llm).compile(checkpointer=InMemorySaver())
    for given in (INPUTS["a request"], {"messages": [{"type": "human", "content": "never answered"}]}):
        with pytest.raises(OSError, match="away"):
            await graph.ainvoke(given, P)
    llm.script = replies(answers_or_summarises)
    await graph.ainvoke({"topic": "notes", "text": "It rains."}, P)
    first = await graph.ainvoke({"messages": [{"type": "human", "content": "Who?"}]}, P)
    second = await graph.ainvoke({"request": "Where?"}, P)
    assert (first["reply"], second["reply"]) == ("ANSWER to Who?", "ANSWER to Where?")
    assert told((await graph.aget_state(P)).values)[0]["dialogue"] == (
        None,
        [("Who?", "ANSWER to Who?", None), ("Where?", "ANSWER to Where?", None)],
    )


async def test_an_answer_can_be_edited_before_it_is_recorded_and_so_can_the_context(clock: Clock) -> None:
    graph = whole(clock).compile(checkpointer=InMemorySaver(), interrupt_before=["record"])
    await graph.ainvoke({"request": "Hello"}, P)
    exchange = (await graph.aget_state(P)).values["exchange"]
    await graph.aupdate_state(P, {"exchange": {**exchange, "response": "BETTER"}})
    context = (await graph.aget_state(P)).values["context"]
    await graph.aupdate_state(P, {"context": context})
    found = await graph.ainvoke(None, P)
    assert found["reply"] == "BETTER"
    assert told((await graph.aget_state(P)).values)[0]["dialogue"] == (None, [("Hello", "BETTER", None)])


async def test_an_answer_that_is_dropped_before_it_is_recorded_is_in_no_message_either(clock: Clock) -> None:
    graph = whole(clock).compile(checkpointer=InMemorySaver(), interrupt_before=["record"])
    for request in ("Hello", "Again"):
        await graph.ainvoke({"request": request}, P)
        if request == "Again":
            await graph.aupdate_state(P, {"exchange": None})
        await graph.ainvoke(None, P)
    sections, messages = told((await graph.aget_state(P)).values)
    assert sections["dialogue"] == (None, [("Hello", "ANSWER to Hello", None)])
    assert messages == [("human", "Hello"), ("ai", "ANSWER to Hello")]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"response": " "}, "exchange.response must not be blank"),
        ({"request": 7}, "exchange is wrong at request"),
        ({"time": "yesterday"}, "exchange is wrong at time"),
        ({"id": "x"}, "exchange is wrong at id"),
    ],
)
async def test_an_answer_is_not_edited_into_one_that_cannot_be_recorded(
    clock: Clock, change: dict[str, Any], told: str
) -> None:
    graph = whole(clock).compile(checkpointer=InMemorySaver(), interrupt_before=["record"])
    await graph.ainvoke({"request": "Hello"}, P)
    exchange = (await graph.aget_state(P)).values["exchange"]
    with pytest.raises(ValueError, match=told):
        await graph.aupdate_state(P, {"exchange": {**exchange, **change}})
    await graph.ainvoke(None, P)
    assert (await graph.aget_state(P)).values["messages"][-1]["content"] == "ANSWER to Hello"


async def test_an_edit_in_the_place_of_an_answer_records_nothing(clock: Clock) -> None:
    graph = whole(clock).compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"request": "Hello"}, P)
    found = (await graph.aget_state(P)).values
    await graph.aupdate_state(P, {"context": found["context"]}, as_node="answer")
    await graph.ainvoke(None, P)
    assert (await graph.aget_state(P)).values == found


async def test_what_is_answered_and_recorded_is_not_answered_again(clock: Clock) -> None:
    llm = ScriptedModel(script=replies(answers_or_summarises))
    graph = whole(clock, llm).compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"request": "Hello"}, P)
    with pytest.raises(ValueError, match="there is no request to answer"):
        await graph.ainvoke(Command(goto="answer"), P)
    assert len(llm.requests) == 1


async def test_an_edit_before_anything_ran_says_which_node_it_is_to_come_as(clock: Clock) -> None:
    graph = whole(clock).compile(checkpointer=InMemorySaver())
    other = whole(clock).compile(checkpointer=InMemorySaver())
    await other.ainvoke({"request": "Hello"}, P)
    context = (await other.aget_state(P)).values["context"]
    with pytest.raises(ValueError, match='as_node="record"'):
        await graph.aupdate_state(P, {"context": context})
    await graph.aupdate_state(P, {"context": context}, as_node="record")
    assert (await graph.aget_state(P)).values["context"] == context
    with pytest.raises(ValueError, match='as_node="record"'):
        await graph.ainvoke({"request": "Hello", "context": context}, P)
