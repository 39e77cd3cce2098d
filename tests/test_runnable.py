# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The whole graph where LangChain's users put it: in a chain, in a script, in a notebook, in a graph of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest
from fakes.chat import Piece, ScriptedModel, asks_for_summary, replies, says, texts
from fakes.clock import Clock
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph

from xr_ai_conversation import build_graph
from xr_ai_conversation.nodes.answer import EmptyAnswerError

P: RunnableConfig = {"configurable": {"thread_id": "p"}}


def whole(llm: ScriptedModel, clock: Clock, saver: Any = None) -> Any:
    graph = build_graph(llm, clock=clock, incremental_context_topics=["notes"])
    return graph.compile(checkpointer=saver or InMemorySaver())


def long_or_summary(messages: list[BaseMessage]) -> str:
    return "SUMMARY" if asks_for_summary(messages) else "x" * 3_000


async def test_a_chain_goes_in_and_out(clock: Clock) -> None:
    graph = whole(ScriptedModel(script=says("AN", "SWER")), clock)
    chain = ChatPromptTemplate([("human", "Tell me of {what}.")]) | (
        lambda prompt: {"messages": prompt.messages}
    )
    chain = chain | graph | (lambda found: found["messages"][-1]["content"]) | StrOutputParser()
    assert await chain.ainvoke({"what": "Lyon"}, P) == "ANSWER"
    assert chain.invoke({"what": "Paris"}, P) == "ANSWER"
    found = (await graph.aget_state(P)).values["messages"]
    assert [message["content"] for message in found[::2]] == ["Tell me of Lyon.", "Tell me of Paris."]


async def test_a_batch_serves_each_thread_from_its_own_context(clock: Clock) -> None:
    llm = ScriptedModel(script=replies(lambda messages: texts(messages)[-1].upper()))
    graph = whole(llm, clock)
    threads: list[RunnableConfig] = [{"configurable": {"thread_id": name}} for name in "abc"]
    found = await graph.abatch([{"request": f"{name}?"} for name in "abc"], threads)
    assert [one["reply"] for one in found] == ["A?", "B?", "C?"]
    for name, thread in zip("abc", threads, strict=True):
        context = (await graph.aget_state(thread)).values["context"]
        assert [entry["request"] for entry in context["dialogue"]["entries"]] == [f"{name}?"]


class Heard(AsyncCallbackHandler):
    """Hears what a model call is told of its run."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], dict[str, Any]]] = []

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append((kwargs["tags"], kwargs["metadata"]))


async def test_tags_metadata_and_callbacks_reach_the_model_call(clock: Clock) -> None:
    heard = Heard()
    config: RunnableConfig = {
        **P,
        "tags": ["ours"],
        "metadata": {"room": "lab"},
        "callbacks": [heard],
    }
    graph = whole(ScriptedModel(script=replies(long_or_summary)), clock)
    for _ in range(2):
        await graph.ainvoke({"request": "Hello"}, config)
    (first, about), *_, (last, _) = heard.calls
    assert "ours" in first
    assert (about["room"], about["thread_id"], about["langgraph_node"]) == ("lab", "p", "answer")
    assert {"ours", "nostream"} <= set(last)


async def test_events_tell_of_nodes_and_tokens_and_of_no_token_of_a_summary(clock: Clock) -> None:
    graph = whole(ScriptedModel(script=replies(long_or_summary)), clock)
    began: list[str] = []
    tokens = ""
    for _ in range(3):
        async for event in graph.astream_events({"request": "Hello"}, P, version="v2"):
            if event["event"] == "on_chain_start" and event["name"] in ("answer", "record", "compact"):
                began.append(event["name"])
            if event["event"] == "on_chat_model_stream" and "nostream" not in event["tags"]:
                tokens += event["data"]["chunk"].content
    assert began == ["answer", "record", "answer", "record", "compact", "answer", "record", "compact"]
    assert tokens == 3 * "x" * 3_000


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_plain_script_runs_it_without_an_event_loop(kind: str, clock: Clock, tmp_path: Path) -> None:
    llm = ScriptedModel(script=replies(long_or_summary))
    with SqliteSaver.from_conn_string(str(tmp_path / "context.db")) as sqlite:
        graph = whole(llm, clock, sqlite if kind == "sqlite" else InMemorySaver())
        graph.invoke({"topic": "notes", "text": "buy milk"}, P)
        for number in range(3):
            parts = list(graph.stream({"request": f"<{number}>"}, P, stream_mode=["custom", "messages"]))
            assert "".join(part for mode, part in parts if mode == "custom") == "x" * 3_000
            assert "".join(part[0].content for mode, part in parts if mode == "messages") == "x" * 3_000
        found = graph.get_state(P).values["context"]
        assert found["dialogue"]["summary"]["text"] == "SUMMARY"
        assert "update> buy milk" in texts(llm.requests[0])[1]
        assert graph.invoke({"forget": True}, P) == {"reply": "", "messages": []}
        with pytest.raises(ValueError, match="a run must be given one of"):
            graph.invoke({"request": "x", "forget": True}, P)


async def test_a_notebook_runs_it_in_a_cell_though_a_loop_runs_there(clock: Clock) -> None:
    graph = whole(ScriptedModel(), clock)
    assert asyncio.get_running_loop().is_running()
    assert graph.invoke({"request": "Hello"}, P)["reply"] == "ok"
    assert (await graph.ainvoke({"request": "Again"}, P))["reply"] == "ok"


def test_a_synchronous_run_fails_as_an_asynchronous_one_does(clock: Clock) -> None:
    llm = ScriptedModel(script=says())
    graph = whole(llm, clock)
    with pytest.raises(EmptyAnswerError):
        graph.invoke({"request": "Hello"}, P)
    llm.script = says("x", ConnectionError("down"))
    with pytest.raises(ConnectionError):
        graph.invoke({"request": "Hello"}, P)
    llm.script = replies(says_or_fails)
    for number in range(4):
        graph.invoke({"request": f"<{number}>"}, P)
    assert len(graph.get_state(P).values["context"]["dialogue"]["entries"]) == 4


def says_or_fails(messages: list[BaseMessage]) -> str:
    if asks_for_summary(messages):
        raise ConnectionError("down")
    return "x" * 3_000


class Outer(TypedDict, total=False):
    """The state of an application's own graph."""

    question: str
    answer: str


def parent(ours: Any) -> Any:
    """Return the builder of a graph that asks ours in a node, as docs/langchain.md shows it."""

    async def ask(state: Outer) -> Outer:
        write, said = get_stream_writer(), []
        thread: RunnableConfig = {"configurable": {"thread_id": "inner"}}
        async for piece in ours.astream({"request": state["question"]}, thread, stream_mode="custom"):
            said.append(piece)
            write(piece)
        return {"answer": "".join(said)}

    outer = StateGraph(Outer)
    outer.add_node("ask", ask)
    outer.add_edge(START, "ask")
    outer.add_edge("ask", END)
    return outer


async def test_in_a_graph_of_another_state_its_tokens_stream_and_its_thread_stays_its_own(
    clock: Clock,
) -> None:
    inner_saver, outer_saver = InMemorySaver(), InMemorySaver()
    ours = whole(ScriptedModel(script=replies(long_or_summary)), clock, inner_saver)
    graph = parent(ours).compile(checkpointer=outer_saver)
    pieces, tokens = "", ""
    async for piece in graph.astream({"question": "<0>"}, P, stream_mode="custom"):
        pieces += piece
    for number in (1, 2):
        async for _, message in graph.astream(
            {"question": f"<{number}>"}, P, stream_mode="messages", subgraphs=True
        ):
            tokens += message[0].content
    assert pieces == "x" * 3_000
    assert tokens == 2 * "x" * 3_000
    assert {name: list(found) for name, found in inner_saver.storage.items()} == {"inner": [""]}
    assert {name: list(found) for name, found in outer_saver.storage.items()} == {"p": [""]}
    found = (await ours.aget_state({"configurable": {"thread_id": "inner"}})).values["context"]
    assert found["dialogue"]["summary"]["text"] == "SUMMARY"


async def test_a_parent_that_is_cancelled_cancels_the_model_and_nothing_is_recorded(clock: Clock) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def stuck(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        yield "x"
        begun.set()
        await never.wait()

    llm = ScriptedModel(script=stuck)
    ours = whole(llm, clock)
    graph = parent(ours).compile(checkpointer=InMemorySaver())
    asked = asyncio.create_task(graph.ainvoke({"question": "Hello"}, P))
    await begun.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert llm.closed == 1
    found = (await ours.aget_state({"configurable": {"thread_id": "inner"}})).values
    assert not found.get("context")


def chat(ours: Any, how: str = "node") -> Any:
    """Return the builder of an application's chat graph in which ours is a node, or is run by one in some way."""
    configs: dict[str, Callable[[RunnableConfig], RunnableConfig | None]] = {
        "the configuration of the node": lambda config: config,
        "what was made from it": lambda config: {
            "configurable": {**config["configurable"], "thread_id": "q"}
        },
        "none": lambda config: None,
    }

    async def ask(state: MessagesState, config: RunnableConfig) -> Any:
        found = await ours.ainvoke({"messages": state["messages"]}, configs[how](config))
        return {"messages": found["messages"][-1:]}

    outer = StateGraph(MessagesState)
    outer.add_node("agent", ours if how == "node" else ask)
    outer.add_edge(START, "agent")
    outer.add_edge("agent", END)
    return outer


@pytest.mark.parametrize("how", ["node", "the configuration of the node", "what was made from it", "none"])
@pytest.mark.parametrize("own", [InMemorySaver(), None, False], ids=["own saver", "none", "never one"])
@pytest.mark.parametrize("outer", [InMemorySaver(), None], ids=["outer saver", "no outer saver"])
async def test_inside_a_call_of_another_graph_where_nothing_would_be_remembered_it_is_refused(
    how: str, own: Any, outer: Any, clock: Clock
) -> None:
    llm = ScriptedModel()
    ours = build_graph(llm, clock=clock).compile(checkpointer=own)
    with pytest.raises(ValueError, match="nothing of it would be remembered"):
        await chat(ours, how).compile(checkpointer=outer).ainvoke({"messages": [("user", "Hello")]}, P)
    assert not llm.requests
    assert not own or not own.storage


def newest(found: dict[str, Any]) -> dict[str, Any]:
    return {"messages": found["messages"][-1:]}


@pytest.mark.parametrize("how", ["whole", "newest"])
async def test_as_a_node_it_adds_its_answers_to_what_the_other_graph_says_and_nothing_twice(
    how: str, clock: Clock
) -> None:
    llm = ScriptedModel(script=replies(lambda messages: f"<{texts(messages)[-1]}>"))
    ours = build_graph(llm, clock=clock).compile(checkpointer=True)
    builder: Any = StateGraph(MessagesState).add_node(
        "greet", lambda _: {"messages": [("ai", "One moment.")]}
    )
    builder.add_node("agent", ours | newest if how == "newest" else ours)
    graph = builder.add_edge(START, "greet").add_edge("greet", "agent").compile(checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [("user", "one")]}, P)
    script, llm.script = llm.script, says(OSError("away"))
    with pytest.raises(OSError, match="away"):
        await graph.ainvoke({"messages": [("user", "two")]}, P)
    llm.script = script
    found = await graph.ainvoke({"messages": [("user", "three")]}, P)
    said = ["one", "One moment.", "<one>", "two", "One moment.", "three", "One moment.", "<three>"]
    assert [message.content for message in found["messages"]] == said
    assert "user> one\nassistant> <one>" in texts(llm.requests[-1])[1]


async def test_what_the_other_graph_has_removed_does_not_come_back_where_only_the_answer_is_handed_on(
    clock: Clock,
) -> None:
    ours = build_graph(ScriptedModel(), clock=clock).compile(checkpointer=True)
    builder: Any = StateGraph(MessagesState).add_node("agent", ours | newest)
    graph = builder.add_edge(START, "agent").compile(checkpointer=InMemorySaver())
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    asked = HumanMessage([{"type": "text", "text": "What?"}, picture], name="ann", id="1")
    found = await graph.ainvoke({"messages": [asked]}, P)
    assert found["messages"][0] == asked
    await graph.aupdate_state(P, {"messages": [RemoveMessage("1")]})
    found = await graph.ainvoke({"messages": [("user", "And now?")]}, P)
    assert [message.content for message in found["messages"]] == ["ok", "And now?", "ok"]


async def test_as_a_node_that_keeps_its_state_it_remembers_in_the_thread_of_the_other_graph(
    clock: Clock,
) -> None:
    llm = ScriptedModel(script=replies(lambda messages: f"<{texts(messages)[-1]}>"))
    ours, saver = build_graph(llm, clock=clock).compile(checkpointer=True), InMemorySaver()
    graph = chat(ours).compile(checkpointer=saver)
    tokens = ""
    for request in ("one", "two"):
        async for _, (message, _) in graph.astream(
            {"messages": [("user", request)]}, P, stream_mode="messages", subgraphs=True
        ):
            tokens += message.content
    assert tokens == "<one><two>"
    assert "one" in texts(llm.requests[-1])[1]
    assert list(saver.storage["p"]) == ["", "agent"]
    said = [(message.type, message.content) for message in (await graph.aget_state(P)).values["messages"]]
    assert said == [("human", "one"), ("ai", "<one>"), ("human", "two"), ("ai", "<two>")]
