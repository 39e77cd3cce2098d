# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The whole graph, run as a server or an application around it runs it: one thread is one participant."""

from __future__ import annotations

import json
from typing import Any, TypedDict

import pytest
from conftest import OpenSaver
from fakes.chat import ScriptedModel, asks_for_summary, replies, says, texts
from fakes.clock import Clock
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from xr_ai_conversation import ContextManager, Conversation, build_graph
from xr_ai_conversation.graph.stores import thread

P: RunnableConfig = {"configurable": {"thread_id": "p"}}


def answers_or_summarises(messages: list[BaseMessage]) -> str:
    return "SUMMARY" if asks_for_summary(messages) else "ANSWER"


def model() -> ScriptedModel:
    return ScriptedModel(script=replies(answers_or_summarises))


def whole(llm: ScriptedModel, clock: Clock, **options: Any) -> Any:
    options = {"incremental_context_topics": ["notes"], "summary_context_topics": ["camera"], **options}
    return build_graph(llm, clock=clock, **options)


async def test_a_run_with_a_request_answers_and_records(open_saver: OpenSaver, clock: Clock) -> None:
    llm = model()
    async with open_saver() as saver:
        graph = whole(llm, clock, instructions="Be brief.").compile(checkpointer=saver)
        assert (await graph.ainvoke({"request": "Hello"}, P))["reply"] == "ANSWER"
        assert (await graph.ainvoke({"request": "Again"}, P))["reply"] == "ANSWER"
        assert "user> Hello\nassistant> ANSWER" in texts(llm.requests[1])[1]
        assert texts(llm.requests[1])[0].endswith("Be brief.")
        state = await graph.aget_state(P)
        assert state.next == ()
        assert json.loads(json.dumps(state.values)) == state.values
        assert sorted(state.values) == ["context", "exchange", "manifest", "messages"]
        assert state.values["exchange"] == {}


async def test_a_run_with_a_topic_takes_an_update_in(clock: Clock) -> None:
    llm = model()
    graph = whole(llm, clock).compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"topic": "notes", "text": "buy milk"}, P)
    await graph.ainvoke({"topic": "camera", "text": "a red chair"}, P)
    await graph.ainvoke({"request": "What do you know?"}, P)
    assert "update> buy milk" in texts(llm.requests[0])[1]
    assert "state> a red chair" in texts(llm.requests[0])[1]


@pytest.mark.parametrize(
    "update", [{"topic": "unknown", "text": "x"}, {"text": "x"}, {"topic": "notes", "text": ""}]
)
async def test_a_bad_update_is_refused_and_leaves_a_thread_that_works(
    clock: Clock, update: dict[str, str]
) -> None:
    graph = whole(model(), clock).compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"request": "Hello"}, P)
    with pytest.raises(ValueError, match=r"topic must be|must not be blank|must have a topic and a text"):
        await graph.ainvoke(update, P)
    assert (await graph.ainvoke({"request": "Still there?"}, P))["reply"] == "ANSWER"


async def test_a_run_compacts_what_is_due_after_the_answer_in_as_many_steps_as_it_takes(clock: Clock) -> None:
    llm = model()
    graph = whole(llm, clock).compile(checkpointer=InMemorySaver())
    async with ContextManager(
        ScriptedModel(script=says("")), clock=clock, checkpointer=graph.checkpointer
    ) as context:
        for number in range(30):
            await context.record_exchange("p", f"<{number}>", "x" * 1_000)
        await context.settled()
    steps = [step async for step in graph.astream({"request": "Hello"}, P, stream_mode="updates")]
    names = [name for step in steps for name in step]
    assert names[:2] == ["answer", "record"]
    assert names.count("compact") >= 3
    found = (await graph.aget_state(P)).values["context"]["dialogue"]
    assert found["summary"]["text"] == "SUMMARY"
    assert [entry["request"] for entry in found["entries"]] == ["Hello"]


async def test_a_summariser_that_fails_does_not_fail_the_run(clock: Clock) -> None:
    def only_answers(messages: list[BaseMessage]) -> str:
        if asks_for_summary(messages):
            raise ConnectionError("down")
        return "x" * 3_000

    graph = whole(ScriptedModel(script=replies(only_answers)), clock).compile(checkpointer=InMemorySaver())
    for number in range(4):
        await graph.ainvoke({"request": f"<{number}>"}, P)
    assert len((await graph.aget_state(P)).values["context"]["dialogue"]["entries"]) == 4


@pytest.mark.parametrize("entries", [0, 1])
async def test_an_empty_run_compacts_nothing_when_there_is_nothing_to_compact(
    clock: Clock, entries: int
) -> None:
    llm = model()
    graph = whole(llm, clock).compile(checkpointer=InMemorySaver())
    if entries:
        await graph.aupdate_state(
            P,
            {
                "context": [
                    {
                        "op": "record",
                        "exchanges": [
                            {
                                "id": "1",
                                "time": "2026-03-02T14:00:00.000000+01:00",
                                "request": "q",
                                "response": "x" * 7_000,
                            }
                        ],
                        "identities": ["A" * 16],
                    }
                ]
            },
            as_node="record",
        )
    before = (await graph.aget_state(P)).values
    await graph.ainvoke({"forget": False}, P)
    assert llm.requests == []
    assert (await graph.aget_state(P)).values.get("context", {}) == before.get("context", {}) or not entries


async def test_a_run_compacts_every_section_that_is_due(clock: Clock) -> None:
    topics = {"incremental_context_topics": ["notes", "plans"]}
    graph = whole(model(), clock, **topics).compile(checkpointer=InMemorySaver())
    silent = ScriptedModel(script=says(""))
    async with ContextManager(silent, clock=clock, checkpointer=graph.checkpointer, **topics) as context:  # type: ignore[arg-type]
        for topic in 3 * ["notes", "plans"]:
            await context.update("p", topic, "x" * 1_000)
        await context.settled()
    await graph.ainvoke({}, P)
    found = (await graph.aget_state(P)).values["context"]["topics"]
    assert [found[topic]["summary"]["text"] for topic in ("notes", "plans")] == ["SUMMARY", "SUMMARY"]


async def test_a_run_with_an_update_compacts_what_it_makes_due(clock: Clock) -> None:
    graph = whole(model(), clock).compile(checkpointer=InMemorySaver())
    nodes: list[str] = []
    for _ in range(3):
        steps = graph.astream({"topic": "notes", "text": "x" * 1_000}, P, stream_mode="updates")
        nodes += [name async for step in steps for name in step]
    assert nodes == ["update", "update", "compact", "update"]


async def test_a_model_of_its_own_makes_the_summaries(clock: Clock) -> None:
    answers, summaries = ScriptedModel(script=says("x" * 3_000)), ScriptedModel(script=says("SUMMARY"))
    graph = whole(answers, clock, summary_llm=summaries).compile(checkpointer=InMemorySaver())
    for number in range(3):
        await graph.ainvoke({"request": f"<{number}>"}, P)
    found = (await graph.aget_state(P)).values["context"]["dialogue"]
    assert found["summary"]["text"] == "SUMMARY"
    assert len(answers.requests) == 3


async def test_forgetting_empties_the_context_and_the_messages(clock: Clock) -> None:
    graph = whole(model(), clock).compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"request": "Hello"}, P)
    assert await graph.ainvoke({"forget": True}, P) == {"reply": "", "messages": []}
    assert "Hello" not in json.dumps((await graph.aget_state(P)).values)


async def test_the_schemas_list_only_what_a_person_gives_and_gets_and_say_what_it_is(clock: Clock) -> None:
    graph = whole(model(), clock).compile()
    given = graph.get_input_jsonschema()["properties"]
    assert list(given) == ["request", "messages", "topic", "text", "forget"]
    assert all(len(field["description"]) > 20 for field in given.values())
    assert list(graph.get_output_jsonschema()["properties"]) == ["reply", "messages"]
    assert graph.get_context_jsonschema() is None


async def test_the_drawing_shows_the_nodes_and_why_each_edge_is_taken(clock: Clock) -> None:
    drawn = whole(model(), clock).compile().get_graph()
    assert set(drawn.nodes) == {"__start__", "answer", "record", "update", "compact", "clear", "__end__"}
    assert {(edge.source, edge.data, edge.target) for edge in drawn.edges} == {
        ("__start__", "request or messages", "answer"),
        ("__start__", "topic and text", "update"),
        ("__start__", "forget", "clear"),
        ("__start__", "nothing", "compact"),
        ("answer", "answered", "record"),
        ("record", "a section is due", "compact"),
        ("record", "nothing is due", "__end__"),
        ("update", "a section is due", "compact"),
        ("update", "nothing is due", "__end__"),
        ("compact", "a section is due", "compact"),
        ("compact", "nothing is due", "__end__"),
        ("clear", "forgotten", "__end__"),
    }


async def test_the_answer_streams_as_text_and_the_summary_never_shows(clock: Clock) -> None:
    llm = model()
    graph = whole(llm, clock).compile(checkpointer=InMemorySaver())
    llm.script = replies(lambda m: "SUMMARY" if asks_for_summary(m) else "x" * 3_000)
    pieces: list[object] = []
    tokens: list[str] = []
    for number in range(4):
        async for mode, piece in graph.astream(
            {"request": f"<{number}>"}, P, stream_mode=["custom", "messages"]
        ):
            if mode == "custom":
                pieces.append(piece)
            else:
                tokens.append(str(piece[0].content))
    assert (await graph.aget_state(P)).values["context"]["dialogue"]["summary"]["text"] == "SUMMARY"
    assert pieces == ["x" * 3_000] * 4
    assert "SUMMARY" not in "".join(tokens)
    assert "x" * 3_000 in "".join(tokens)


class Outer(TypedDict, total=False):
    """The state of an application's own graph."""

    question: str
    answer: str


async def test_a_conversation_inside_another_graph_keeps_its_own_store_and_hides_its_summaries(
    clock: Clock,
) -> None:
    ours, outer_saver = InMemorySaver(), InMemorySaver()
    summariser = ScriptedModel(script=says("SUMMARY"))
    context = ContextManager(summariser, clock=clock, checkpointer=ours)
    talk = Conversation(ScriptedModel(script=says("x" * 3_000)), context=context)

    async def ask(state: Outer) -> Outer:
        return {"answer": "".join([piece async for piece in talk.stream("inner", state["question"])])}

    outer = StateGraph(Outer)
    outer.add_node("ask", ask)
    outer.add_edge(START, "ask")
    outer.add_edge("ask", END)
    graph = outer.compile(checkpointer=outer_saver)
    tokens = ""
    for number in range(5):
        async for message, _ in graph.astream({"question": f"<{number}>"}, P, stream_mode="messages"):
            tokens += str(message.content)  # type: ignore[union-attr]
        await context.settled()
    assert summariser.requests
    assert "SUMMARY" not in tokens
    assert list(ours.storage) == ["inner"]
    assert list(outer_saver.storage) == ["p"]
    assert list(outer_saver.storage["p"]) == [""]


async def test_the_history_of_a_managed_thread_names_the_nodes_that_wrote(
    open_saver: OpenSaver, clock: Clock
) -> None:
    async with (
        open_saver() as saver,
        ContextManager(
            ScriptedModel(script=says("S")),
            clock=clock,
            checkpointer=saver,
            incremental_context_topics=["notes"],
        ) as context,
    ):
        await context.update("p", "notes", "x")
        for number in range(7):
            await context.record_exchange("p", f"<{number}>", "x" * 700)
        await context.settled()
        graph = whole(model(), clock).compile(checkpointer=saver)
        states = [state async for state in graph.aget_state_history(thread("p"))]
        assert all(state.next == () for state in states)
        assert states[0].values["context"] == await context.snapshot("p")
        assert len(states) == 9


@pytest.mark.parametrize("models", [("gpt",), (None,), (ScriptedModel(), 7)])
def test_what_is_no_chat_model_is_refused_when_the_graph_is_built(models: Any) -> None:
    with pytest.raises(TypeError, match=r"llm must be a LangChain chat model, got (str|NoneType|int)"):
        build_graph(models[0], summary_llm=models[1] if len(models) > 1 else None)
