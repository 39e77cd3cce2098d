# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What an application sees that has set up OpenTelemetry or a tracer: figures and names, and no text."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any, TypeAlias
from uuid import UUID

import pytest
from conftest import OpenSaver
from fakes.chat import ScriptedModel, asks_for_summary, replies, says, texts
from fakes.clock import Clock
from fakes.summariser import Summariser
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)

from xr_ai_conversation import (
    ContextManager,
    Conversation,
    ConversationMiddleware,
    EmptyAnswerError,
    build_graph,
)

Figures: TypeAlias = dict[tuple[str, ...], float]
"""For each instrument, with the values of its attributes: what a counter counted, how much a histogram added up."""

LONG = "SECRET " * 300
THREAD: RunnableConfig = {"configurable": {"thread_id": "p"}}


@pytest.fixture(scope="module")
def reader() -> InMemoryMetricReader:
    """The reader of this process's one meter provider; each reading is of what was measured since the last."""
    delta = AggregationTemporality.DELTA
    made = InMemoryMetricReader({Counter: delta, Histogram: delta})
    set_meter_provider(MeterProvider([made]))
    return made


@pytest.fixture
def measured(reader: InMemoryMetricReader) -> Iterator[Callable[[], Figures]]:
    """Returns what was measured since the test began."""
    reader.get_metrics_data()
    yield lambda: figures(reader)


def figures(reader: InMemoryMetricReader) -> Figures:
    found: Figures = {}
    data = reader.get_metrics_data()
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    assert isinstance(point, NumberDataPoint | HistogramDataPoint)
                    name = metric.name.removeprefix("xr_ai_conversation.")
                    key = (name, *(str(value) for _, value in sorted((point.attributes or {}).items())))
                    found[key] = point.value if isinstance(point, NumberDataPoint) else point.sum
    return found


async def answer(talk: Conversation, text: str = "Hi") -> None:
    async for _ in talk.stream("p", text):
        pass


async def test_answers_are_counted_by_how_they_ended_and_their_contexts_weighed(
    measured: Callable[[], Figures], clock: Clock
) -> None:
    model = ScriptedModel(script=says("one ", "two"))
    async with ContextManager(ScriptedModel(), clock=clock) as context:
        talk = Conversation(model, context=context)
        await answer(talk)
        await answer(talk)
        async with aclosing(talk.stream("p", "Hi")) as pieces:
            await anext(pieces)
        with pytest.raises(EmptyAnswerError):
            await answer(Conversation(ScriptedModel(script=says("")), context=context))
    found = measured()
    assert found["answers", "completed"] == 2
    assert found["answers", "interrupted"] == found["answers", "failed"] == 1
    assert found["answer.duration", "completed"] > found["answer.first_piece",] / 2 > 0
    assert found["context.size",] == sum(len(texts(sent)[1].encode()) for sent in model.requests[:2])


async def test_compactions_are_counted_by_how_they_ended_with_what_went_into_them(
    measured: Callable[[], Figures], clock: Clock
) -> None:
    replied = iter(("", "They spoke of it."))
    model = ScriptedModel(script=replies(lambda _: next(replied)))
    async with ContextManager(model, clock=clock, incremental_context_topics=["notes"]) as context:
        for _ in range(2):
            await context.update("p", "notes", LONG)
            await context.settled()
    found = measured()
    assert found["compactions", "failed", "empty", "topic", "notes"] == 1
    assert found["compactions", "done", "topic", "notes"] == 1
    assert found["compaction.entries", "topic", "notes"] == 2
    assert found["summary.size", "topic", "notes"] == len("They spoke of it.")
    assert found["compaction.duration", "done", "topic", "notes"] > 0


@pytest.mark.parametrize("open_saver", ["postgres"], indirect=True)
async def test_a_compaction_that_another_manager_has_done_counts_as_skipped(
    measured: Callable[[], Figures], open_saver: OpenSaver, clock: Clock
) -> None:
    slow = Summariser()
    async with (
        open_saver() as first,
        open_saver() as second,
        ContextManager(slow.model, clock=clock, checkpointer=first) as one,
        ContextManager(slow.model, clock=clock, checkpointer=second) as other,
    ):
        for number in range(2):
            await one.record_exchange("p", f"{number}", LONG)
        await slow.begun.wait()
        waiting = asyncio.create_task(other.settled("p"))
        await other.snapshot("p")
        slow.release.set()
        await one.settled()
        await waiting
    found = measured()
    assert (found["compactions", "done", "dialogue"], found["compactions", "skipped", "dialogue"]) == (1, 1)


async def test_the_compactions_of_an_agents_memory_are_counted(
    measured: Callable[[], Figures], clock: Clock
) -> None:
    async with ContextManager(ScriptedModel(script=says("S")), clock=clock) as context:
        agent = create_agent(
            ScriptedModel(script=says(LONG)), [], middleware=[ConversationMiddleware(context)]
        )
        for _ in range(2):
            await agent.ainvoke({"messages": [HumanMessage("Hi")]}, THREAD)
            await context.settled()
    found = measured()
    assert (found["compactions", "done", "dialogue"], found["compaction.entries", "dialogue"]) == (1, 1)


async def test_nothing_is_measured_of_the_whole_graph(measured: Callable[[], Figures], clock: Clock) -> None:
    model = ScriptedModel(script=replies(lambda messages: "S" if asks_for_summary(messages) else LONG))
    graph = build_graph(model, clock=clock).compile(checkpointer=InMemorySaver())
    for _ in range(3):
        await graph.ainvoke({"request": "Hi"}, THREAD)
    assert (await graph.aget_state(THREAD)).values["context"]["dialogue"]["summary"]
    assert measured() == {}


async def test_a_cancelled_compaction_counts_as_that(measured: Callable[[], Figures], clock: Clock) -> None:
    slow = Summariser()
    async with ContextManager(slow.model, clock=clock) as context:
        for number in range(2):
            await context.record_exchange("p", f"{number}", LONG)
        await slow.begun.wait()
        await context.clear("p")
    assert measured()["compactions", "cancelled", "dialogue"] == 1


async def test_no_metric_tells_who_it_was_or_what_was_said(
    reader: InMemoryMetricReader, measured: Callable[[], Figures], clock: Clock
) -> None:
    async with ContextManager(ScriptedModel(script=says("S")), clock=clock) as context:
        talk = Conversation(ScriptedModel(script=says(LONG)), context=context)
        for _ in range(3):
            async for _ in talk.stream("SECRET", LONG):
                pass
        await context.settled()
    data = reader.get_metrics_data()
    assert data and data.resource_metrics
    assert "compactions" in str(data) and "SECRET" not in str(data)


class Tracer(AsyncCallbackHandler):
    """Notes the name and the metadata of each run."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, dict[str, Any]]] = []

    async def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, metadata: Any = None, **kwargs: Any
    ) -> None:
        self.runs.append((kwargs.get("name") or "", metadata or {}))

    async def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, metadata: Any = None, **kwargs: Any
    ) -> None:
        self.runs.append((kwargs.get("name") or "", metadata or {}))

    def metadata(self, name: str) -> dict[str, Any]:
        """Return the metadata of the last run of a name."""
        return [metadata for found, metadata in self.runs if found == name][-1]


def model_of(tracer: Tracer, script: Callable[[list[BaseMessage]], str]) -> ScriptedModel:
    return ScriptedModel(script=replies(script), callbacks=[tracer])


async def test_a_trace_names_runs_nodes_and_requests_and_tells_what_a_prompt_shows(clock: Clock) -> None:
    tracer = Tracer()
    model = ScriptedModel(script=says("word"))
    async with ContextManager(ScriptedModel(), clock=clock) as context:
        await context.record_exchange("p", "SECRET", "SECRET")
        talk = Conversation(model, context=context)

        async def application(text: str) -> None:
            async for _ in talk.stream("p", text, turn_id="t1"):
                pass

        await RunnableLambda(application).ainvoke("Hi", {"callbacks": [tracer]})
    assert [name for name, _ in tracer.runs] == ["application", "answer", "answer", "answer request"]
    found = tracer.metadata("answer request")
    size = len(texts(model.requests[0])[1].encode())
    assert (found["participant_id"], found["turn_id"], found["langgraph_node"]) == ("p", "t1", "answer")
    assert (found["context_bytes"], found["context_shown"], found["context_left_out"]) == (size, 1, 0)
    assert "SECRET" not in str(found)


async def test_a_summary_is_traced_under_its_own_name_with_its_section(clock: Clock) -> None:
    tracer = Tracer()
    async with ContextManager(model_of(tracer, lambda _: "S"), clock=clock) as context:
        for number in range(2):
            await context.record_exchange("p", f"{number}", LONG)
        await context.settled()
    assert [name for name, _ in tracer.runs] == ["summary request"]
    found = tracer.metadata("summary request")
    assert (found["participant_id"], found["section"], found["langgraph_node"]) == (
        "p",
        "the dialogue",
        "compact",
    )
    assert "SECRET" not in str(found)


def test_without_opentelemetry_nothing_is_measured_and_everything_works() -> None:
    code = """
import sys, asyncio
sys.modules["opentelemetry"] = None
sys.path.insert(0, "tests")
from fakes.chat import ScriptedModel
from xr_ai_conversation import ContextManager, Conversation
async def main():
    async with ContextManager(ScriptedModel()) as context:
        async for piece in Conversation(ScriptedModel(), context=context).stream("p", "Hi"):
            print(piece)
asyncio.run(main())
"""
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert done.stdout == "ok\n"
