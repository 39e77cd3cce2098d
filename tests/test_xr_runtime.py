# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The local runtime: what is registered, who is given what, and how deliveries end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import MethodType
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, ValidationError

from xr_ai_conversation.xr import (
    Agent,
    AgentRuntime,
    MessageMetadata,
    RuntimeClosedError,
    RuntimeContext,
    Topic,
    subscribe,
)
from xr_ai_conversation.xr.host import there

if TYPE_CHECKING:
    from xr_ai_conversation.xr import RuntimeContext as Unresolvable


class Note(BaseModel):
    text: str
    tags: list[str] = []


class SpecialNote(Note):
    extra: int = 0


class Other(BaseModel):
    text: str


NOTES = Topic("notes", Note)
REPLIES = Topic("replies", Note)

Action = Callable[[Note, RuntimeContext], Awaitable[None]]


class Listener(Agent):
    """Keeps what it is given, and then does what it is told to."""

    def __init__(self, action: Action | None = None) -> None:
        super().__init__()
        self.action = action
        self.notes: list[Note] = []
        self.metadata: list[MessageMetadata] = []

    @subscribe(NOTES)
    async def note(self, message: Note, context: RuntimeContext) -> None:
        self.notes.append(message)
        self.metadata.append(context.metadata)
        if self.action is not None:
            await self.action(message, context)


class ReplyListener(Agent):
    def __init__(self) -> None:
        super().__init__()
        self.metadata: list[MessageMetadata] = []

    @subscribe(REPLIES)
    async def reply(self, message: Note, context: RuntimeContext) -> None:
        self.metadata.append(context.metadata)


local = pytest.mark.skipif(there("xr_ai_runtime"), reason="this is of our own runtime, not of the contract")


def runtime_of(*agents: Agent) -> AgentRuntime:
    runtime = AgentRuntime()
    for number, agent in enumerate(agents):
        runtime.register(f"agent-{number}", agent)
    return runtime


# Topics and registration


@pytest.mark.parametrize("name", ["", "  "])
def test_a_topic_needs_a_name(name: str) -> None:
    with pytest.raises(ValueError):
        Topic(name, Note)


@pytest.mark.parametrize("message_type", [str, dict, "Note", None])
def test_a_topic_carries_pydantic_models_only(message_type: Any) -> None:
    with pytest.raises(TypeError):
        Topic("notes", message_type)


def test_the_telemetry_of_a_topic_is_full_or_none() -> None:
    assert Topic("notes", Note).telemetry == "full"
    with pytest.raises(ValueError):
        Topic("notes", Note, "some")  # type: ignore[arg-type]


def test_topics_can_be_compared_and_are_keys() -> None:
    assert {NOTES: 1}[Topic("notes", Note)] == 1


def test_registering_returns_the_agent() -> None:
    agent = Agent()
    assert AgentRuntime().register("a", agent) is agent
    assert tuple(agent.tools) == ()


@local
def test_what_is_wrong_is_named() -> None:
    runtime = runtime_of(Listener())
    with pytest.raises(ValueError, match="'agent-0' is registered"):
        runtime.register("agent-0", Agent())
    with pytest.raises(TypeError, match=r"Synchronous\.note must be asynchronous"):
        runtime.register("b", Synchronous())
    with pytest.raises(TypeError, match=r"OtherMessage\.note of 'notes' must annotate its message with Note"):
        runtime.register("b", OtherMessage())
    with pytest.raises(
        ValueError, match=r"'notes' is known with another payload class: .*\.Note, not .*\.Other"
    ):
        runtime.register("b", OtherTopic())


@local
def test_the_tools_of_an_agent_are_kept() -> None:
    tool = object()
    assert Agent([tool]).tools == (tool,)


async def test_an_agent_is_registered_before_the_start() -> None:
    runtime = AgentRuntime()
    async with runtime:
        with pytest.raises(RuntimeError):
            runtime.register("late", Listener())
    with pytest.raises(RuntimeError):
        runtime.register("later", Listener())


def test_a_name_is_neither_blank_nor_taken() -> None:
    runtime = AgentRuntime()
    runtime.register("a", Agent())
    with pytest.raises(ValueError):
        runtime.register("a", Agent())
    with pytest.raises(ValueError):
        runtime.register(" ", Agent())


def test_what_is_no_agent_or_has_not_become_one_is_refused() -> None:
    class Forgot(Agent):
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError):
        AgentRuntime().register("a", object())  # type: ignore[type-var]
    with pytest.raises(TypeError):
        AgentRuntime().register("a", Forgot())


class Synchronous(Agent):
    @subscribe(NOTES)  # type: ignore[type-var]
    def note(self, message: Note, context: RuntimeContext) -> None: ...


class Unannotated(Agent):
    @subscribe(NOTES)
    async def note(self, message, context) -> None: ...  # type: ignore[no-untyped-def]


class OneArgument(Agent):
    @subscribe(NOTES)
    async def note(self, message: Note) -> None: ...


class ThreeArguments(Agent):
    @subscribe(NOTES)
    async def note(self, message: Note, context: RuntimeContext, more: int = 0) -> None: ...


class OtherTopic(Agent):
    @subscribe(Topic("notes", Other))
    async def note(self, message: Other, context: RuntimeContext) -> None: ...


class OtherMessage(Agent):
    @subscribe(NOTES)
    async def note(self, message: Other, context: RuntimeContext) -> None: ...


@pytest.mark.parametrize("agent", [Synchronous, Unannotated, OneArgument, ThreeArguments, OtherMessage])
def test_a_subscriber_is_asynchronous_and_takes_the_message_of_its_topic_and_a_context(
    agent: type[Agent],
) -> None:
    with pytest.raises(TypeError):
        AgentRuntime().register("a", agent())


def test_an_annotation_that_cannot_be_resolved_is_a_name_error() -> None:
    class Hidden(Agent):
        @subscribe(NOTES)
        async def note(self, message: Note, context: Unresolvable) -> None: ...

    with pytest.raises(NameError):
        AgentRuntime().register("a", Hidden())


async def test_a_refused_agent_leaves_nothing_behind() -> None:
    class HalfWrong(Agent):
        @subscribe(NOTES)
        async def note(self, message: Note, context: RuntimeContext) -> None:
            raise AssertionError("it was refused")

        @subscribe(Topic("replies", Other))
        async def reply(self, message: Other, context: RuntimeContext) -> None: ...

    runtime = runtime_of(ReplyListener())
    with pytest.raises(ValueError):
        runtime.register("wrong", HalfWrong())
    runtime.register("wrong", Listener())
    async with runtime:
        await runtime.publish(NOTES, Note(text="x"))


async def test_a_topic_name_goes_with_one_payload_class_by_identity() -> None:
    async with runtime_of(Listener()) as runtime:
        with pytest.raises(ValueError):
            await runtime.publish(Topic("notes", Other), Other(text="x"))


async def test_a_method_may_subscribe_to_several_topics_and_an_agent_have_it_on_the_instance() -> None:
    heard: list[str] = []

    class Late(Agent):
        def __init__(self) -> None:
            super().__init__()

            @subscribe(NOTES)
            @subscribe(REPLIES)
            async def receive(agent: Agent, message: Note, context: RuntimeContext) -> None:
                heard.append(message.text)

            self.receive = MethodType(receive, self)

    async with runtime_of(Late()) as runtime:
        await runtime.publish(NOTES, Note(text="a"))
        await runtime.publish(REPLIES, Note(text="b"))
    assert heard == ["a", "b"]


@local
async def test_an_overridden_method_counts_as_it_is_and_properties_are_not_run() -> None:
    class Quiet(Listener):
        @property
        def costly(self) -> int:
            raise AssertionError("it was run")

        async def note(self, message: Note, context: RuntimeContext) -> None:
            raise AssertionError("it does not subscribe")

    async with runtime_of(Quiet()) as runtime:
        await runtime.publish(NOTES, Note(text="x"))


# Delivery


async def test_every_subscriber_gets_a_deep_copy_of_its_own() -> None:
    async def spoil(message: Note, context: RuntimeContext) -> None:
        message.tags.append("spoiled")

    first, second = Listener(spoil), Listener()
    given = Note(text="x", tags=["a"])
    async with runtime_of(first, second) as runtime:
        await runtime.publish(NOTES, given)
    assert first.notes[0].tags == ["a", "spoiled"]
    assert second.notes[0].tags == given.tags == ["a"]


async def test_deliveries_go_on_at_once_begun_in_the_order_of_registration() -> None:
    order: list[str] = []
    release = asyncio.Event()

    async def wait(message: Note, context: RuntimeContext) -> None:
        order.append(context.agent_name)
        await release.wait()

    async def open_up(message: Note, context: RuntimeContext) -> None:
        order.append(context.agent_name)
        release.set()

    async with runtime_of(Listener(wait), Listener(wait), Listener(open_up)) as runtime:
        await runtime.publish(NOTES, Note(text="x"))
    assert order == ["agent-0", "agent-1", "agent-2"]


async def test_a_payload_may_be_given_by_its_fields_and_a_subclass_passes_as_it_is() -> None:
    listener = Listener()
    async with runtime_of(listener) as runtime:
        await runtime.publish(NOTES, {"text": "by fields"})
        await runtime.publish(NOTES, SpecialNote(text="special", extra=3))
    assert listener.notes == [Note(text="by fields"), SpecialNote(text="special", extra=3)]


@pytest.mark.parametrize("message", [Other(text="x"), {"text": 1}, {}, "x", None])
async def test_a_payload_that_does_not_fit_is_a_validation_error(message: Any) -> None:
    listener = Listener()
    async with runtime_of(listener) as runtime:
        with pytest.raises(ValidationError):
            await runtime.publish(NOTES, message)
    assert listener.notes == []


async def test_without_a_subscriber_nothing_happens() -> None:
    async with AgentRuntime() as runtime:
        await runtime.publish(NOTES, Note(text="x"))


async def test_metadata_says_whom_and_from_whom_and_begins_a_chain() -> None:
    listener = Listener()
    async with runtime_of(listener) as runtime:
        await runtime.publish(NOTES, Note(text="x"), participant_id="p", source="camera")
        await runtime.publish(NOTES, Note(text="x"))
    scoped, open_to_all = listener.metadata
    assert (scoped.participant_id, scoped.source) == ("p", "camera")
    assert (open_to_all.participant_id, open_to_all.source) == (None, "application")
    assert scoped.correlation_id == scoped.message_id != open_to_all.message_id
    assert scoped.parent_message_id is None
    assert scoped.timestamp_us > 1_700_000_000_000_000


async def test_what_is_published_in_answer_inherits_participant_and_chain() -> None:
    async def answer(message: Note, context: RuntimeContext) -> None:
        await context.publish(REPLIES, Note(text="re"))
        await context.publish(REPLIES, Note(text="re"), participant_id="q")

    first, replies = Listener(answer), ReplyListener()
    async with runtime_of(first, replies) as runtime:
        await runtime.publish(NOTES, Note(text="x"), participant_id="p")
    (origin,) = first.metadata
    inherited, given = replies.metadata
    assert (inherited.participant_id, given.participant_id) == ("p", "q")
    for metadata in replies.metadata:
        assert metadata.source == "agent-0"
        assert metadata.correlation_id == origin.message_id == metadata.parent_message_id
    assert len({origin.message_id, inherited.message_id, given.message_id}) == 3


async def test_the_publishers_context_variables_are_seen_in_deliveries() -> None:
    variable = ContextVar("variable", default="unset")
    seen: list[str] = []

    async def look(message: Note, context: RuntimeContext) -> None:
        seen.append(variable.get())
        variable.set("changed")

    async with runtime_of(Listener(look)) as runtime:
        variable.set("set")
        await runtime.publish(NOTES, Note(text="x"))
    assert (seen, variable.get()) == (["set"], "set")


@pytest.mark.parametrize("wrong", [{"participant_id": " "}, {"participant_id": ""}, {"source": ""}])
async def test_blank_ids_and_sources_are_refused(wrong: dict[str, str]) -> None:
    async with runtime_of(Listener()) as runtime:
        with pytest.raises(ValueError):
            await runtime.publish(NOTES, Note(text="x"), **wrong)


# Failure


async def test_errors_are_raised_in_a_group_when_all_have_settled() -> None:
    fail_first, go_on = asyncio.Event(), asyncio.Event()

    async def fail(message: Note, context: RuntimeContext) -> None:
        fail_first.set()
        raise KeyError(context.agent_name)

    async def outlive(message: Note, context: RuntimeContext) -> None:
        await fail_first.wait()
        await go_on.wait()

    async with runtime_of(Listener(fail), Listener(outlive), Listener(fail)) as runtime:
        publishing = asyncio.create_task(runtime.publish(NOTES, Note(text="x")))
        await fail_first.wait()
        await asyncio.sleep(0)
        assert not publishing.done()
        go_on.set()
        with pytest.raises(ExceptionGroup) as caught:
            await publishing
    assert caught.value.message == "errors during event publication"
    assert [error.args for error in caught.value.exceptions] == [("agent-0",), ("agent-2",)]


async def test_a_subscriber_that_was_cancelled_is_in_a_base_exception_group() -> None:
    async def give_up(message: Note, context: RuntimeContext) -> None:
        raise asyncio.CancelledError

    async with runtime_of(Listener(give_up)) as runtime:
        with pytest.raises(BaseExceptionGroup) as caught:
            await runtime.publish(NOTES, Note(text="x"))
    assert not isinstance(caught.value, ExceptionGroup)


class Held(Listener):
    """Waits in its delivery until it is released, and again while it cleans up."""

    def __init__(self, *, cleaning: Callable[[RuntimeContext], Awaitable[None]] | None = None) -> None:
        super().__init__(self.hold)
        self.cleaning = cleaning
        self.entered, self.release = asyncio.Event(), asyncio.Event()
        self.cancelled, self.cleaned = asyncio.Event(), asyncio.Event()
        self.may_clean = asyncio.Event()

    async def hold(self, message: Note, context: RuntimeContext) -> None:
        self.entered.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            await self.may_clean.wait()
            if self.cleaning is not None:
                await self.cleaning(context)
            self.cleaned.set()
            raise


async def test_a_cancelled_publisher_cancels_its_deliveries_waits_for_them_and_is_cancelled() -> None:
    first, second = Held(), Held()
    async with runtime_of(first, second) as runtime:
        publishing = asyncio.create_task(runtime.publish(NOTES, Note(text="x")))
        await second.entered.wait()
        publishing.cancel()
        await first.cancelled.wait()
        await second.cancelled.wait()
        first.may_clean.set()
        await first.cleaned.wait()
        assert not publishing.done()
        second.may_clean.set()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        assert second.cleaned.is_set()


async def test_a_publisher_that_is_cancelled_twice_still_waits_for_its_deliveries() -> None:
    held = Held()
    async with runtime_of(held) as runtime:
        publishing = asyncio.create_task(runtime.publish(NOTES, Note(text="x")))
        await held.entered.wait()
        publishing.cancel()
        await held.cancelled.wait()
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        assert not held.cleaned.is_set()  # the second one reached it as well


async def test_one_cancelled_publisher_does_not_disturb_another() -> None:
    held, other = Held(), Listener()
    async with runtime_of(held, other) as runtime:
        first = asyncio.create_task(runtime.publish(NOTES, Note(text="first")))
        await held.entered.wait()
        held.entered.clear()
        second = asyncio.create_task(runtime.publish(NOTES, Note(text="second")))
        await held.entered.wait()
        held.may_clean.set()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        held.release.set()
        await second
    assert [note.text for note in other.notes] == ["first", "second"]


async def test_a_frame_published_while_a_cancellation_passes_is_delivered() -> None:
    replies = ReplyListener()

    async def close_stream(context: RuntimeContext) -> None:
        await context.publish(REPLIES, Note(text="end"))

    held = Held(cleaning=close_stream)
    held.may_clean.set()
    async with runtime_of(held, replies) as runtime:
        publishing = asyncio.create_task(runtime.publish(NOTES, Note(text="x")))
        await held.entered.wait()
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
    assert len(replies.metadata) == 1


# Closed


async def test_nothing_is_published_before_the_start_and_after_the_stop() -> None:
    listener = Listener()
    runtime = runtime_of(listener)
    with pytest.raises(RuntimeClosedError):
        await runtime.publish(NOTES, Note(text="x"))
    await runtime.start()
    assert runtime.running
    await runtime.stop()
    assert not runtime.running
    with pytest.raises(RuntimeClosedError):
        await runtime.publish(NOTES, Note(text="x"))
    assert listener.notes == []
    assert issubclass(RuntimeClosedError, RuntimeError)


async def test_a_stopped_runtime_cannot_be_started_again_but_stopped_again() -> None:
    runtime = AgentRuntime()
    await runtime.stop()
    await runtime.stop()
    with pytest.raises(RuntimeClosedError):
        await runtime.start()


@local
async def test_stopping_again_while_it_stops_does_not_cut_short_what_is_being_cleaned_up() -> None:
    held = Held()
    runtime = runtime_of(held)
    await runtime.start()
    publishing = asyncio.create_task(runtime.publish(NOTES, Note(text="x")))
    await held.entered.wait()
    stopping = asyncio.create_task(runtime.stop())
    await held.cancelled.wait()
    again = asyncio.create_task(runtime.stop())
    await asyncio.sleep(0)
    held.may_clean.set()
    await stopping
    await again
    assert held.cleaned.is_set()
    with pytest.raises(BaseExceptionGroup):
        await publishing


async def test_stopping_cancels_deliveries_and_the_publisher_is_told_of_it_in_a_group() -> None:
    held = Held()
    runtime = runtime_of(held)
    await runtime.start()
    publishing = asyncio.create_task(runtime.publish(NOTES, Note(text="x")))
    await held.entered.wait()
    stopping = asyncio.create_task(runtime.stop())
    await held.cancelled.wait()
    assert not stopping.done()
    held.may_clean.set()
    await stopping
    assert held.cleaned.is_set()
    with pytest.raises(BaseExceptionGroup) as caught:
        await publishing
    assert [type(error) for error in caught.value.exceptions] == [asyncio.CancelledError]


@local
async def test_a_subscriber_may_stop_its_runtime() -> None:
    async def stop(message: Note, context: RuntimeContext) -> None:
        await runtime.stop()

    runtime = runtime_of(Listener(stop))
    async with runtime:
        await runtime.publish(NOTES, Note(text="x"))
    assert not runtime.running


async def test_a_context_does_not_publish_after_the_stop() -> None:
    kept: list[RuntimeContext] = []

    async def keep(message: Note, context: RuntimeContext) -> None:
        kept.append(context)

    async with runtime_of(Listener(keep)) as runtime:
        await runtime.publish(NOTES, Note(text="x"))
    with pytest.raises(RuntimeClosedError):
        await kept[0].publish(REPLIES, Note(text="x"))
