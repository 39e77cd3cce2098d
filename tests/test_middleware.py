# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""An agent of `create_agent` that remembers: what its model is sent, what is recorded, what stays in its own state."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from itertools import count, pairwise
from typing import Any, cast

import pytest
from conftest import OpenSaver
from fakes.chat import Piece, Script, ScriptedModel, calls, replies, says, texts
from fakes.clock import Clock
from fakes.saver import SteeredSaver
from fakes.summariser import Summariser
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    ToolCallLimitMiddleware,
    after_model,
    hook_config,
)
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command
from pydantic import BaseModel
from recorded import exchanges, requests

from xr_ai_conversation import ContextManager, ContextSchemaError, Conversation, ConversationMiddleware

Agent = Any  # the type of a compiled agent has four parameters, which nothing here reads


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def in_turn(*answers: Piece) -> Script:
    """Return a script that gives one answer after the other, a request each."""
    left: Iterator[Piece] = iter(answers)

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        yield next(left)

    return script


def build(model: ScriptedModel, context: ContextManager, *tools: BaseTool, **others: Any) -> Agent:
    return create_agent(
        model,
        list(tools),
        system_prompt="Be brief.",
        middleware=[ConversationMiddleware(context), *others.pop("middleware", ())],
        **others,
    )


def thread(thread_id: str = "p") -> Any:
    return {"configurable": {"thread_id": thread_id}}


async def ask(agent: Agent, text: Any, thread_id: str = "p") -> str:
    said = (await agent.ainvoke({"messages": text}, thread(thread_id)))["messages"][-1].text
    assert isinstance(said, str)
    return said


@pytest.fixture
async def context(clock: Clock) -> AsyncIterator[ContextManager]:
    async with ContextManager(
        ScriptedModel(script=says("A summary.")), incremental_context_topics=["notes"], clock=clock
    ) as manager:
        yield manager


async def test_a_model_call_is_sent_the_three_messages_of_a_conversation(context: ContextManager) -> None:
    await context.update("p", "notes", "The pump is off.")
    await context.record_exchange("p", "Hello.", "Hello to you.")
    model = ScriptedModel(script=says("It is off."))
    talk = Conversation(model, context=context, system_prompt="Be brief.")
    expected = await talk.messages("p", "And the pump?")
    await ask(build(model, context), "And the pump?")
    (sent,) = model.requests
    assert [(message.type, message.text) for message in sent] == [
        (message.type, message.text) for message in expected
    ]


@pytest.mark.parametrize("kept", ["by its checkpointer", "not at all"])
async def test_an_earlier_turn_is_in_the_context_and_is_no_message(
    context: ContextManager, kept: str
) -> None:
    model = ScriptedModel(script=in_turn("One.", "Two."))
    agent = build(model, context, checkpointer=InMemorySaver() if kept == "by its checkpointer" else None)
    await ask(agent, "First?")
    await ask(agent, "Second?")
    _, known, request = texts(model.requests[1])
    assert "First?" in known and "One." in known and request == "Second?"
    assert await exchanges(context) == [("First?", "One."), ("Second?", "Two.")]


async def test_what_an_agent_remembers_is_there_after_a_restart(open_saver: OpenSaver, clock: Clock) -> None:
    model = ScriptedModel(script=in_turn("In drawer seven.", "Drawer seven."))
    for question in ("Where is the key?", "Where?"):
        async with (
            open_saver() as saver,
            ContextManager(model, checkpointer=saver, clock=clock) as context,
        ):
            await ask(build(model, context), question)
    assert "user> Where is the key?\nassistant> In drawer seven." in texts(model.requests[1])[1]


async def test_a_tool_loop_with_parallel_calls_is_recorded_once(context: ContextManager) -> None:
    pairs = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
    model = ScriptedModel(script=in_turn(calls(*pairs), calls(("add", {"a": 3, "b": 7})), "Ten."))
    await ask(build(model, context, add), "What is 1+2 and 3+4, together?")
    assert await exchanges(context) == [("What is 1+2 and 3+4, together?", "Ten.")]
    _, _, last = model.requests
    assert [message.type for message in last] == [
        "system",
        "human",
        "human",
        "ai",
        "tool",
        "tool",
        "ai",
        "tool",
    ]
    assert [message.text for message in last if isinstance(message, ToolMessage)] == ["3", "7", "10"]


async def test_the_calls_of_a_tool_loop_share_their_beginning_until_five_minutes_are_over(
    context: ContextManager, clock: Clock
) -> None:
    @tool
    def wait(seconds: int) -> str:
        """Wait."""
        clock.move(seconds=seconds)
        return "done"

    steps = [calls(("wait", {"seconds": seconds})) for seconds in (60, 230, 20, 10)]
    model = ScriptedModel(script=in_turn(*steps, "Done."))
    await ask(build(model, context, wait), "Wait.")
    sent = [texts(request) for request in model.requests]
    for one, next_one in pairwise(sent[:3]):
        assert next_one[: len(one)] == one
    assert [request[1][-15:] for request in sent] == ["14:00:00 +01:00"] * 3 + ["14:05:00 +01:00"] * 2
    assert (await context.snapshot("p"))["dialogue"]["entries"][0]["time"].startswith("2026-03-02T14:00:00")


async def test_an_update_that_is_published_in_a_tool_loop_is_seen_by_its_next_call(
    context: ContextManager, clock: Clock
) -> None:
    @tool
    async def look() -> str:
        """Look."""
        clock.move(seconds=30)
        await context.update("p", "notes", "The pump leaks.")
        return "seen"

    model = ScriptedModel(script=in_turn(calls(("look", {})), "It leaks."))
    await ask(build(model, context, look), "Look.")
    before, after = (texts(request)[1] for request in model.requests)
    assert "The pump leaks." not in before and "The pump leaks." in after
    assert after.endswith("14:00:30 +01:00")


async def test_the_time_that_the_model_is_told_is_never_that_of_an_update_to_come(
    context: ContextManager, clock: Clock
) -> None:
    await context.update("p", "notes", "The lab closes.", timestamp=clock() + timedelta(hours=3))
    model = ScriptedModel()
    await ask(build(model, context), "When?")
    assert texts(model.requests[0])[1].endswith("14:00:00 +01:00")


async def test_the_request_stays_when_a_tool_puts_a_human_message_after_it(context: ContextManager) -> None:
    @tool
    def picture(runtime: ToolRuntime) -> Command[Any]:
        """Take a picture."""
        taken = ToolMessage("taken", tool_call_id=runtime.tool_call_id)
        return Command(update={"messages": [taken, HumanMessage("the picture")]})

    model = ScriptedModel(script=in_turn(calls(("picture", {})), "A pump.", "Yes."))
    agent = build(model, context, picture, checkpointer=InMemorySaver())
    await ask(agent, "What do you see?")
    assert [text for text in texts(model.requests[1])[2:] if text] == [
        "What do you see?",
        "taken",
        "the picture",
    ]
    await ask(agent, "Sure?")
    assert await exchanges(context) == [("What do you see?", "A pump."), ("Sure?", "Yes.")]


async def test_a_request_of_several_messages_is_sent_and_recorded_whole(context: ContextManager) -> None:
    model = ScriptedModel(script=in_turn("A pump.", "Yes."))
    agent = build(model, context)
    asked = [HumanMessage("A picture."), HumanMessage("What is it?")]
    await ask(agent, asked)
    assert texts(model.requests[0])[2:] == ["A picture.", "What is it?"]
    await ask(agent, [*asked, AIMessage("A pump."), HumanMessage("Sure?")])
    assert await exchanges(context) == [("A picture.\n\nWhat is it?", "A pump."), ("Sure?", "Yes.")]


@pytest.mark.parametrize("saver", [None, InMemorySaver()])
async def test_a_failed_run_leaves_nothing_to_remember_and_nothing_dangling(
    context: ContextManager, saver: InMemorySaver | None
) -> None:
    model = ScriptedModel(script=in_turn(calls(("add", {"a": 1, "b": 2})), RuntimeError("away"), "Fine."))
    agent = build(model, context, add, checkpointer=saver)
    with pytest.raises(RuntimeError, match="away"):
        await ask(agent, "What is 1+2?")
    assert await exchanges(context) == []
    await ask(agent, "How are you?")
    assert texts(model.requests[-1])[2:] == ["How are you?"]
    assert await exchanges(context) == [("How are you?", "Fine.")]


async def test_a_model_call_that_is_retried_is_recorded_once(context: ContextManager) -> None:
    model = ScriptedModel(script=in_turn(RuntimeError("away"), "Fine."))
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0)
    assert await ask(build(model, context, middleware=[retry]), "How are you?") == "Fine."
    assert await exchanges(context) == [("How are you?", "Fine.")]
    assert texts(model.requests[0]) == texts(model.requests[1])


async def test_an_error_that_another_middleware_gives_out_as_an_answer_is_not_remembered(
    context: ContextManager, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel(script=says(RuntimeError("away")))
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0)
    assert "away" in await ask(build(model, context, middleware=[retry]), "How are you?")
    assert await exchanges(context) == []
    assert "participant 'p'" in caplog.text and "How are you?" not in caplog.text


@pytest.mark.parametrize("answer", ["", " \n", "<think>Hm.</think>"])
async def test_an_empty_answer_is_not_recorded(context: ContextManager, answer: str) -> None:
    await ask(build(ScriptedModel(script=says(answer)), context), "How are you?")
    assert await exchanges(context) == []


@pytest.mark.parametrize(
    "content",
    [
        "<think>Hm.</think>Fine.",
        [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Fine."}],
    ],
)
async def test_an_answer_is_recorded_without_its_reasoning(context: ContextManager, content: Any) -> None:
    model = ScriptedModel(script=says(AIMessageChunk(content=content)))
    await ask(build(model, context), "How are you?")
    assert await exchanges(context) == [("How are you?", "Fine.")]


async def test_a_cancelled_run_is_not_recorded_and_has_ended_its_model(context: ContextManager) -> None:
    begun = asyncio.Event()

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        yield "Once "
        begun.set()
        await asyncio.Event().wait()

    model = ScriptedModel(script=script)
    run = asyncio.create_task(ask(build(model, context, checkpointer=InMemorySaver()), "A story."))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert model.closed == 1
    assert await exchanges(context) == []


async def test_a_run_that_is_cancelled_while_it_records_has_recorded(clock: Clock) -> None:
    saver = SteeredSaver()
    async with ContextManager(ScriptedModel(), checkpointer=saver, clock=clock) as context:
        saver.open.clear()
        run = asyncio.create_task(ask(build(ScriptedModel(script=says("Fine.")), context), "How are you?"))
        await saver.reached.wait()
        run.cancel()
        saver.open.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert await exchanges(context) == [("How are you?", "Fine.")]


async def test_a_stream_has_the_tokens_of_the_answer_and_none_of_a_summary(clock: Clock) -> None:
    summariser = Summariser("A summary.")
    async with ContextManager(summariser.model, clock=clock, dialogue_budget_bytes=1_000) as context:
        for number in range(8):
            await context.record_exchange("p", f"{number}?", "x" * 200)
        await summariser.begun.wait()

        async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
            yield "It is "
            summariser.release.set()
            await context.settled("p")
            yield "fine."

        agent = build(ScriptedModel(script=script), context, checkpointer=InMemorySaver())
        said, nodes = "", list[str]()
        async for mode, part in agent.astream(
            {"messages": "How is it?"}, thread(), stream_mode=["messages", "updates"]
        ):
            if mode == "messages":
                said += part[0].text
            else:
                nodes += part
        assert said == "It is fine."
        assert nodes == [
            "ConversationMiddleware.before_agent",
            "model",
            "ConversationMiddleware.after_agent",
        ]
        assert (await exchanges(context))[-1] == ("How is it?", "It is fine.")


class Reading(BaseModel):
    """A reading."""

    value: int


async def test_structured_output_is_given_and_what_it_ended_with_is_recorded(context: ContextManager) -> None:
    model = ScriptedModel(script=replies(lambda _: calls(("Reading", {"value": 7}))))
    agent = build(model, context, response_format=ToolStrategy(Reading, tool_message_content="Read 7."))
    result = await agent.ainvoke({"messages": "Read."}, thread())
    assert result["structured_response"] == Reading(value=7)
    assert await exchanges(context) == [("Read.", "Read 7.")]


async def test_what_a_tool_returns_directly_is_recorded_as_the_answer(context: ContextManager) -> None:
    @tool(return_direct=True)
    def read(value: str) -> str:
        """Read."""
        return f"{value}."

    both = calls(("read", {"value": "Seven"}), ("read", {"value": "Eight"}))
    await ask(build(ScriptedModel(script=says(both)), context, read), "Read.")
    assert await exchanges(context) == [("Read.", "Seven.\n\nEight.")]


async def test_what_is_said_before_a_call_that_is_never_made_is_no_answer(context: ContextManager) -> None:
    @after_model(can_jump_to=["end"])
    def stop(state: AgentState[Any], runtime: Any) -> dict[str, Any]:
        return {"jump_to": "end"}

    announced = AIMessageChunk(content="Let me add.") + calls(("add", {"a": 1, "b": 2}))
    await ask(build(ScriptedModel(script=says(announced)), context, add, middleware=[stop]), "What is 1+2?")
    assert await exchanges(context) == []


async def test_a_run_that_waits_for_a_person_is_recorded_once_when_it_goes_on(
    context: ContextManager, open_saver: OpenSaver
) -> None:
    model = ScriptedModel(script=in_turn(calls(("add", {"a": 1, "b": 2})), "Three."))
    approval = HumanInTheLoopMiddleware(interrupt_on={"add": True})
    async with open_saver() as saver:
        agent = build(model, context, add, middleware=[approval], checkpointer=saver)
        paused = await agent.ainvoke({"messages": "What is 1+2?"}, thread())
        assert paused["__interrupt__"] and await exchanges(context) == []
        resumed = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())
        assert resumed["messages"][-1].text == "Three."
        states = [state async for state in agent.aget_state_history(thread())]
        (before_the_end,) = (
            state for state in states if state.next == ("ConversationMiddleware.after_agent",)
        )
        await agent.ainvoke(None, before_the_end.config)
    assert await exchanges(context) == [("What is 1+2?", "Three.")]


async def test_history_that_a_caller_passes_in_is_taken_over_once(context: ContextManager) -> None:
    model = ScriptedModel(script=in_turn("Ann.", "Lyon.", "Yes."))
    agent = build(model, context)
    history: list[Any] = [
        {"role": "system", "content": "Speak English."},
        {"role": "user", "content": "My sister lives in Lyon."},
        {"role": "assistant", "content": "A fine city."},
        {"role": "system", "content": "Be kind."},
    ]
    for question in ("Who am I?", "Where does she live?", "Sure?"):
        history.append({"role": "user", "content": question})
        history.append({"role": "assistant", "content": await ask(agent, history)})
    assert await exchanges(context) == [
        ("My sister lives in Lyon.", "A fine city."),
        ("Who am I?", "Ann."),
        ("Where does she live?", "Lyon."),
        ("Sure?", "Yes."),
    ]
    instructions = ["Be brief.", "Speak English.", "Be kind."]
    assert [texts(request)[:3] for request in model.requests] == [instructions] * 3
    assert [texts(request)[4:] for request in model.requests] == [
        ["Who am I?"],
        ["Where does she live?"],
        ["Sure?"],
    ]
    assert "assistant> A fine city." in texts(model.requests[0])[3]


async def test_a_system_message_that_comes_with_every_request_is_sent_once(context: ContextManager) -> None:
    model = ScriptedModel(script=says("Fine."))
    agent = create_agent(
        model, middleware=[ConversationMiddleware(context, keep_turns=1)], checkpointer=InMemorySaver()
    )
    for _ in range(4):
        await ask(agent, [SystemMessage("Speak English."), HumanMessage("How are you?")])
    assert [message.type for message in model.requests[-1]] == ["system", "human", "human"]


async def test_what_was_forgotten_does_not_come_back_from_the_agents_own_state(
    context: ContextManager,
) -> None:
    model = ScriptedModel(script=says("Fine."))
    agent = build(model, context, checkpointer=InMemorySaver())
    await ask(agent, "How are you?")
    await context.clear("p")
    await ask(agent, "And now?")
    assert await requests(context) == ["And now?"]


async def test_threads_of_one_participant_share_what_is_remembered(context: ContextManager) -> None:
    model = ScriptedModel(script=says("Fine."))
    middleware: ConversationMiddleware[None, Any] = ConversationMiddleware(
        context, participant=lambda state, runtime: "ann"
    )
    agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    for number, thread_id in enumerate(["a", "b", "a", "b", "a"]):
        await ask(agent, f"{number}?", thread_id)
    assert await requests(context, "ann") == ["0?", "1?", "2?", "3?", "4?"]


@pytest.mark.parametrize(("keep", "left"), [(0, 1), (2, 3), (None, 5)])
async def test_the_agents_own_state_keeps_so_many_turns(
    context: ContextManager, keep: int | None, left: int
) -> None:
    answers = [
        piece for number in range(5) for piece in (calls(("add", {"a": number, "b": 0})), f"{number}.")
    ]
    agent = create_agent(
        ScriptedModel(script=in_turn(*answers)),
        [add],
        middleware=[ConversationMiddleware(context, keep_turns=keep)],
        checkpointer=InMemorySaver(),
    )
    first: Any = [SystemMessage("Speak English."), HumanMessage("0?")]
    for number in range(5):
        await ask(agent, first if number == 0 else f"{number}?")
    kept = (await agent.aget_state(thread())).values["messages"]
    assert [message.type for message in kept] == ["system", *["human", "ai", "tool", "ai"] * left]
    assert kept[-1].text == "4."


async def test_people_who_are_served_at_once_are_kept_apart(context: ContextManager) -> None:
    model = ScriptedModel(script=replies(lambda messages: f"{messages[-1].text} It is noted."))
    agent = build(model, context, checkpointer=InMemorySaver())

    async def visit(name: str) -> None:
        for number in range(3):
            await ask(agent, f"{name} says {number}.", name)

    names = [f"person-{number}-" for number in range(10)]
    await asyncio.gather(*(visit(name) for name in names))
    for request in model.requests:
        (own,) = (name for name in names if name in request[-1].text)
        assert not any(name in text for text in texts(request) for name in names if name != own)
    assert await requests(context, names[3]) == [f"{names[3]} says {number}." for number in range(3)]


async def test_an_agent_that_shares_its_store_with_the_context_is_refused(
    open_saver: OpenSaver, clock: Clock
) -> None:
    async with (
        open_saver() as saver,
        ContextManager(ScriptedModel(), checkpointer=saver, clock=clock) as context,
    ):
        agent = build(ScriptedModel(), context, checkpointer=saver)
        with pytest.raises(
            ContextSchemaError, match=r"'p'.* of another graph; give the context manager a store"
        ):
            await ask(agent, "How are you?")


def test_a_synchronous_run_is_told_what_to_call_instead(context: ContextManager) -> None:
    agent = build(ScriptedModel(), context)
    with pytest.raises(NotImplementedError, match="call ainvoke or astream, not invoke or stream"):
        agent.invoke({"messages": "How are you?"}, thread())


@pytest.mark.parametrize(
    ("state", "config", "message"),
    [
        ({"messages": "How are you?"}, {}, "a run needs configurable.thread_id"),
        ({"messages": [AIMessage("Fine.")]}, thread(), "a run needs a human message, got 1 messages"),
        ({"messages": " \n"}, thread(), "a run needs a human message with text, got blank text"),
        ({"messages": "How are you?"}, thread("x" * 600), "participant_id must have 1 to 512 bytes"),
    ],
)
async def test_a_run_that_cannot_be_is_refused(
    context: ContextManager, state: Any, config: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        await build(ScriptedModel(), context).ainvoke(state, config)


def test_arguments_that_cannot_be_are_refused(context: ContextManager) -> None:
    not_a_manager: Any = "context"
    with pytest.raises(TypeError, match="context must be a ContextManager, got str"):
        ConversationMiddleware(not_a_manager)
    with pytest.raises(ValueError, match="keep_turns must be at least 0, or None for all, got -1"):
        ConversationMiddleware(context, keep_turns=-1)


def test_without_langchain_the_package_works_and_the_middleware_says_what_to_install() -> None:
    code = """
import sys
sys.modules["langchain"] = None
from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation import ConversationMiddleware
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: ConversationMiddleware needs LangChain: pip install 'xr-ai-conversation[langchain]'"
    )


def in_line(*agents: Agent, saver: InMemorySaver | None = None) -> Agent:
    """Return a graph whose agents answer one after the other, over the same messages."""
    graph = StateGraph(MessagesState)
    graph.add_sequence([(f"agent {number}", agent) for number, agent in enumerate(agents)])
    graph.add_edge(START, "agent 0")
    return graph.compile(checkpointer=saver)


def numbered() -> ScriptedModel:
    """Return a model that numbers its answers."""
    numbers = count(1)
    return ScriptedModel(script=replies(lambda _: f"Answer {next(numbers)}."))


@pytest.mark.parametrize("own", [None, True])
@pytest.mark.parametrize("kept", ["by its checkpointer", "by its caller", "as plain text", "not at all"])
async def test_agents_that_answer_one_request_each_record_it_once(
    clock: Clock, open_saver: OpenSaver, kept: str, own: bool | None
) -> None:
    saver, model = InMemorySaver() if kept == "by its checkpointer" else None, numbered()
    messages: list[Any] = [HumanMessage("Hello."), AIMessage("Hello to you.")]
    for turn in range(4):
        async with (
            open_saver() as store,
            ContextManager(ScriptedModel(), checkpointer=store, clock=clock) as context,
        ):
            agents = [build(model, context, checkpointer=own if saver else None) for _ in range(2)]
            asked = [*messages, HumanMessage(f"{turn}?")]
            answer = await in_line(*agents, saver=saver).ainvoke({"messages": asked}, thread())
            if kept == "as plain text":
                messages = [*messages, ("human", f"{turn}?"), ("ai", answer["messages"][-1].text)]
            else:
                messages = answer["messages"] if kept == "by its caller" else []
            found = await exchanges(context)
    assert found == [
        ("Hello.", "Hello to you."),
        *((f"{number // 2}?", f"Answer {number + 1}.") for number in range(8)),
    ]


async def test_what_agents_of_one_graph_answered_is_known_when_it_was_compacted(clock: Clock) -> None:
    async with ContextManager(
        ScriptedModel(script=says("A summary.")), clock=clock, dialogue_budget_bytes=1_000
    ) as context:
        agent = build(numbered(), context)
        graph = in_line(agent, agent, saver=InMemorySaver())
        for number in range(12):
            await ask(graph, f"{number}? {'x' * 200}", "p" if number % 3 else "q")
            await context.settled()
        dialogues = [(await context.snapshot(each))["dialogue"] for each in ("p", "q")]
    assert [
        len(dialogue["entries"]) + (dialogue["summary"] or {"covers": 0})["covers"] for dialogue in dialogues
    ] == [16, 8]


class Guard(AgentMiddleware[Any, Any, Any]):
    """Ends a run with words of its own, in the hook that it is given."""

    def __init__(self, hook: str) -> None:
        self._hook = hook

    def _end(self, hook: str) -> dict[str, Any] | None:
        return {"messages": [AIMessage("I may not.")], "jump_to": "end"} if hook == self._hook else None

    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: AgentState[Any], runtime: Any) -> dict[str, Any] | None:
        return self._end("before_agent")

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Any) -> dict[str, Any] | None:
        return self._end("before_model")

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: AgentState[Any], runtime: Any) -> dict[str, Any] | None:
        return self._end("after_model")


@pytest.mark.parametrize("kept", ["by its checkpointer", "by its caller"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "other",
    [
        *(Guard(hook) for hook in ("before_agent", "before_model", "after_model")),
        ModelCallLimitMiddleware(run_limit=1),
        ToolCallLimitMiddleware(run_limit=1, exit_behavior="end"),
        ModelRetryMiddleware(max_retries=0),
    ],
    ids=lambda value: getattr(value, "_hook", type(value).__name__),
)
async def test_what_another_middleware_says_in_the_place_of_the_model_is_not_remembered(
    context: ContextManager, other: Any, first: bool, kept: str
) -> None:
    model = ScriptedModel(
        script=in_turn(
            calls(("add", {"a": 1, "b": 2})),
            *([calls(("add", {"a": 3, "b": 4}))] if isinstance(other, ToolCallLimitMiddleware) else []),
            RuntimeError("away"),
        )
    )
    own: Any = ConversationMiddleware(context)
    saver = InMemorySaver() if kept == "by its checkpointer" else None
    agent: Agent = create_agent(
        model, [add], middleware=[own, other] if first else [other, own], checkpointer=saver
    )
    messages = (await agent.ainvoke({"messages": "What is 1+2?"}, thread()))["messages"]
    assert messages[-1].text not in ("", "3") and await exchanges(context) == []

    fine = build(ScriptedModel(script=says("Fine.")), context, add, checkpointer=saver)
    await ask(fine, [*(messages if not saver else []), HumanMessage("How are you?")])
    assert await exchanges(context) == [("How are you?", "Fine.")]


async def test_an_answer_is_recorded_as_another_middleware_has_left_it(context: ContextManager) -> None:
    redact = PIIMiddleware("email", apply_to_input=True, apply_to_output=True)
    model = ScriptedModel(script=says("Write to bob@example.com."))
    await ask(build(model, context, middleware=[redact]), "I am ann@example.com.")
    assert await exchanges(context) == [("I am [REDACTED_EMAIL].", "Write to [REDACTED_EMAIL].")]


@pytest.mark.parametrize("name", ["run-1", "lc_run--1", "msg_1", "8a6e0804-2bd0-4672-b79d-d97027f9071a"])
async def test_an_answer_of_the_model_is_known_whatever_its_id(context: ContextManager, name: str) -> None:
    model = ScriptedModel(script=says(AIMessageChunk(content="Fine.", id=name)))
    await ask(build(model, context), "How are you?")
    assert await exchanges(context) == [("How are you?", "Fine.")]


async def test_a_stream_of_updates_has_each_message_of_the_agent_once(context: ContextManager) -> None:
    model = ScriptedModel(script=in_turn(calls(("add", {"a": 1, "b": 2})), "Three."))
    agent = build(model, context, add)
    said = [
        (node, message.type)
        async for part in agent.astream({"messages": "What is 1+2?"}, thread(), stream_mode="updates")
        for node, update in part.items()
        for message in update.get("messages", [])
    ]
    assert said == [("model", "ai"), ("tools", "tool"), ("model", "ai")]


@tool
def wipe(runtime: ToolRuntime) -> Command[Any]:
    """Forget all messages."""
    wiped = ToolMessage("wiped", tool_call_id=runtime.tool_call_id)
    return Command(update={"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), wiped]})


def summarising(messages: int) -> AgentMiddleware[Any, Any, Any]:
    peer: Any = SummarizationMiddleware(
        ScriptedModel(script=says("They spoke.")), trigger=("messages", messages), keep=("messages", 1)
    )
    return cast("AgentMiddleware[Any, Any, Any]", peer)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("wiped", [True, False])
async def test_a_request_whose_message_is_gone_is_sent_and_recorded(
    context: ContextManager, wiped: bool, first: bool
) -> None:
    steps = [calls(("wipe", {}))] if wiped else [calls(("add", {"a": n, "b": 2})) for n in range(5)]
    model = ScriptedModel(script=in_turn("Hello.", *steps, "Done.", "Two."))
    own: Any = ConversationMiddleware(context)
    both = [own, summarising(4)] if first else [summarising(4), own]
    agent = create_agent(
        model, [wipe, add], system_prompt="Be brief.", middleware=both, checkpointer=InMemorySaver()
    )
    await ask(agent, [SystemMessage("Speak English."), HumanMessage("Hi.")])
    await ask(agent, [HumanMessage("One?"), HumanMessage("Well?")])
    for sent in model.requests[1:]:
        _, after_the_context = "\n\n".join(texts(sent)).split("Current time: ")
        assert after_the_context.count("One?\n\nWell?") == 1
    await ask(agent, "Two?")
    assert await exchanges(context) == [("Hi.", "Hello."), ("One?\n\nWell?", "Done."), ("Two?", "Two.")]
    assert texts(model.requests[-1])[-1] == "Two?"


async def test_a_request_whose_message_is_gone_stays_as_another_middleware_has_left_it(
    context: ContextManager,
) -> None:
    model = ScriptedModel(script=in_turn(*(calls(("add", {"a": n, "b": 2})) for n in range(5)), "Done."))
    others = [PIIMiddleware("email", apply_to_input=True), summarising(4)]
    await ask(build(model, context, add, middleware=others), "I am ann@example.com.")
    assert await exchanges(context) == [("I am [REDACTED_EMAIL].", "Done.")]
    assert not any("ann@" in text for request in model.requests for text in texts(request))


@pytest.mark.parametrize("text", ["Who is there, please?", "Who is there?"])
async def test_a_request_that_comes_again_under_its_id_is_sent_without_its_old_answer(
    context: ContextManager, text: str
) -> None:
    model = ScriptedModel(script=in_turn("Fine.", calls(("add", {"a": 1, "b": 2})), "One.", "Two.", "Three."))
    agent = build(model, context, add, checkpointer=InMemorySaver())
    await ask(agent, "How are you?")
    for question in ("Who is there?", text):
        await ask(agent, [HumanMessage(question, id="asked"), SystemMessage("Speak English.")])
    _, rule, _, *of_run = texts(model.requests[-1])
    assert rule == "Speak English." and of_run == [text]
    kept = (await agent.aget_state(thread())).values["messages"]
    assert [message.text for message in kept if not isinstance(message, SystemMessage)] == [
        "How are you?",
        "Fine.",
        text,
        "Two.",
    ]
    await ask(agent, "And now?")
    assert await exchanges(context) == [
        ("How are you?", "Fine."),
        ("Who is there?", "One."),
        (text, "Two."),
        ("And now?", "Three."),
    ]


async def test_a_request_that_comes_again_after_a_failed_run_is_sent_without_what_that_left(
    context: ContextManager,
) -> None:
    model = ScriptedModel(script=in_turn(calls(("add", {"a": 1, "b": 2})), RuntimeError("away"), "Three."))
    agent = build(model, context, add, checkpointer=InMemorySaver())
    asked = [HumanMessage("Add."), HumanMessage("What is 1+2?", id="asked")]
    with pytest.raises(RuntimeError, match="away"):
        await ask(agent, asked)
    await ask(agent, asked[1:])
    assert texts(model.requests[-1])[2:] == ["Add.", "What is 1+2?"]
    assert await exchanges(context) == [("Add.\n\nWhat is 1+2?", "Three.")]


async def test_an_answer_that_is_made_again_is_made_without_the_first_and_recorded_beside_it(
    context: ContextManager,
) -> None:
    model = ScriptedModel(script=in_turn("Zero.", "One.", "Other.", "Two."))
    agent = build(model, context, checkpointer=InMemorySaver())
    await ask(agent, "How are you?")
    await ask(agent, "Who is there?")
    before = [state async for state in agent.aget_state_history(thread()) if state.next == ("model",)]
    await agent.ainvoke(None, before[0].config)
    assert texts(model.requests[2]) == texts(model.requests[1])
    await ask(agent, "And now?")
    assert await exchanges(context) == [
        ("How are you?", "Zero."),
        ("Who is there?", "One."),
        ("Who is there?", "Other."),
        ("And now?", "Two."),
    ]


async def test_what_another_agent_answered_to_the_request_is_sent_as_its_message_and_not_as_context(
    context: ContextManager,
) -> None:
    model = ScriptedModel(script=in_turn("A plan.", "A text.", "A plan again.", "A text again."))
    agent = build(model, context)
    graph = in_line(agent, agent, saver=InMemorySaver())
    await ask(graph, "Write.")
    assert "A plan." not in texts(model.requests[1])[1] and texts(model.requests[1])[2:] == [
        "Write.",
        "A plan.",
    ]
    await ask(graph, [HumanMessage("Write.")])
    assert "A plan." in texts(model.requests[3])[1] and texts(model.requests[3])[2:] == [
        "Write.",
        "A plan again.",
    ]


async def test_messages_of_one_id_are_all_remembered_if_their_words_differ(context: ContextManager) -> None:
    model = ScriptedModel(script=in_turn("Hello.", "Fine.", "Yes."))
    agent = build(model, context)
    for text in ("Hi.", "How are you?", "Sure?"):
        await ask(agent, [HumanMessage(text, id="1")])
    assert await exchanges(context) == [("Hi.", "Hello."), ("How are you?", "Fine."), ("Sure?", "Yes.")]
    assert "user> Hi." in texts(model.requests[2])[1]
