# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A routed answer: what is published, what is recorded, and how it ends, whatever happens."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self

import pytest
from fakes.chat import Piece, Script, ScriptedModel, says, texts
from fakes.clock import Clock
from fakes.saver import SteeredSaver
from fakes.summariser import Summariser
from fakes.voice import VoiceLayer
from langchain_core.messages import AIMessageChunk, BaseMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from recorded import exchanges

from xr_ai_conversation import ContextManager, Conversation, EmptyAnswerError
from xr_ai_conversation.xr import (
    VOICE_OUTPUT_TOPIC,
    Admission,
    Agent,
    AgentExchange,
    AgentRouter,
    AgentRuntime,
    AgentTurn,
    DestinationResult,
    ResponseOutput,
    RoutableAgent,
    RuntimeClosedError,
    RuntimeContext,
    subscribe,
)

ASKED_US = 1_772_456_400_000_000  # 2026-03-02 14:00:00 +01:00, when the fake clock starts


class Speaker:
    """A model that says one word after the other, each when it is told to."""

    def __init__(self, *words: Piece) -> None:
        self.words = words
        self.said = asyncio.Semaphore(0)
        self.waiting = asyncio.Event()
        """It waits to be told; cleared by `tell`."""
        self.closing: Callable[[], Awaitable[None]] | None = None
        """What it does when it is closed early."""
        self.model = ScriptedModel(script=self._script)

    async def _script(self, _: list[BaseMessage]) -> AsyncIterator[Piece]:
        try:
            for word in self.words:
                self.waiting.set()
                await self.said.acquire()
                yield word
            self.waiting.set()
            await self.said.acquire()
        except asyncio.CancelledError:
            if self.closing is not None:
                await self.closing()
            raise

    def tell(self, count: int = 1) -> None:
        self.waiting.clear()
        for _ in range(count):
            self.said.release()


class Stage:
    """A running runtime with a strict listener, and a conversation that publishes to it."""

    def __init__(
        self,
        script: Script | ScriptedModel,
        clock: Clock,
        *,
        saver: BaseCheckpointSaver[Any] | None = None,
        summaries: ScriptedModel | None = None,
        agents: tuple[Agent, ...] = (),
        **options: Any,
    ) -> None:
        self.model = script if isinstance(script, ScriptedModel) else ScriptedModel(script=script)
        self.runtime = AgentRuntime()
        self.voice = self.runtime.register("voice", VoiceLayer())
        for number, agent in enumerate(agents):
            self.runtime.register(f"agent {number}", agent)
        self.context = ContextManager(summaries or ScriptedModel(), clock=clock, checkpointer=saver)
        self.talk = Conversation(
            self.model,
            context=self.context,
            runtime=self.runtime,
            output_topic=VOICE_OUTPUT_TOPIC,
            **options,
        )
        self.started = 0

    async def __aenter__(self) -> Self:
        await self.runtime.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runtime.stop()
        await self.context.close()
        assert self.voice.errors == []
        assert not [spoken for spoken in self.voice.responses if spoken.open]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    def start(self) -> None:
        self.started += 1

    def answer(self, turn: AgentTurn) -> asyncio.Task[DestinationResult]:
        return asyncio.create_task(self.talk.answer(turn, started=self.start))

    async def halfway(self, speaker: Speaker) -> asyncio.Task[DestinationResult]:
        """Begin an answer, and return it when its first piece was heard."""
        task = self.answer(turn())
        speaker.tell()
        await self.voice.heard(1)
        return task

    async def exchanges(self, participant: str = "p") -> list[tuple[str, str]]:
        return await exchanges(self.context, participant)

    def pieces(self) -> list[tuple[str, bool]]:
        return [(output.text, output.final) for output in self.voice.outputs]


def turn(text: str = "Hi", turn_id: str = "t", participant: str = "p", **fields: Any) -> AgentTurn:
    return AgentTurn(participant, turn_id, text, **fields)


async def gone(task: asyncio.Task[Any]) -> BaseException | None:
    """Return what a task ended with."""
    await asyncio.wait((task,))
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def until(event: asyncio.Event, task: asyncio.Task[Any]) -> None:
    """Wait for an event, unless the task that is to set it ends."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait((waiting, task), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    assert event.is_set(), await gone(task)


# a whole answer


async def test_an_answer_is_published_as_one_reply_to_the_turn_in_order_with_its_time(clock: Clock) -> None:
    async with Stage(says("At ", "three."), clock) as stage:
        await stage.answer(turn(timestamp_us=ASKED_US))
    assert stage.pieces() == [("At ", False), ("three.", False), ("", True)]
    assert {(out.kind, out.request_id, out.timestamp_us) for out in stage.voice.outputs} == {
        ("reply", "t", ASKED_US)
    }
    assert len({out.response_id for out in stage.voice.outputs}) == 1
    assert [spoken.source for spoken in stage.voice.responses] == ["conversation"]


async def test_two_answers_to_one_turn_id_are_two_responses(clock: Clock) -> None:
    async with Stage(says("ok"), clock) as stage:
        for _ in range(2):
            await stage.answer(turn())
    assert len({out.response_id for out in stage.voice.outputs}) == 2


async def test_the_result_is_the_completed_exchange_and_leaves_the_focus(clock: Clock) -> None:
    async with Stage(says("At ", "three."), clock) as stage:
        result = await stage.answer(turn("When?", timestamp_us=5))
    assert result == DestinationResult(AgentExchange("When?", "At three.", 5, "t"), "keep")


async def test_the_exchange_is_recorded_as_of_the_time_of_the_turn(clock: Clock) -> None:
    async with Stage(says("ok"), clock) as stage:
        clock.move(minutes=2)
        await stage.answer(turn(timestamp_us=ASKED_US))
        await stage.answer(turn("And now?", "u"))
        times = [block.time for block in await stage.context.blocks("p")]
    assert [time.minute for time in times] == [0, 2]


async def test_answers_that_end_in_another_order_stand_in_the_order_in_which_they_were_asked(
    clock: Clock,
) -> None:
    slow = Speaker("slow")
    async with Stage(slow.model, clock) as stage:
        other = Conversation(
            ScriptedModel(script=says("quick")),
            context=stage.context,
            runtime=stage.runtime,
            output_topic=VOICE_OUTPUT_TOPIC,
        )
        first = stage.answer(turn("first", "t1", timestamp_us=ASKED_US))
        await until(slow.waiting, first)
        await other.answer(turn("second", "t2", timestamp_us=ASKED_US + 3_000_000))
        slow.tell(2)
        await first
        assert await stage.exchanges() == [("first", "slow"), ("second", "quick")]


async def test_started_is_called_once_just_before_the_first_piece(clock: Clock) -> None:
    order: list[str] = []

    async def heard(output: ResponseOutput) -> None:
        order.append(output.text)

    async with Stage(says("", "a", "b"), clock) as stage:
        stage.voice.listen = heard
        await stage.talk.answer(turn(), started=lambda: order.append("started"))
    assert order == ["started", "a", "b", ""]


async def test_started_is_awaited_if_it_is_awaitable(clock: Clock) -> None:
    order: list[str] = []

    async def heard(output: ResponseOutput) -> None:
        order.append(output.text)

    async def started() -> None:
        await asyncio.sleep(0)
        order.append("started")

    async with Stage(says("a"), clock) as stage:
        stage.voice.listen = heard
        await stage.talk.answer(turn(), started=started)
    assert order == ["started", "a", ""]


async def test_nothing_is_published_if_started_fails(clock: Clock) -> None:
    def started() -> None:
        raise LookupError("no")

    async with Stage(says("a"), clock) as stage:
        with pytest.raises(LookupError):
            await stage.talk.answer(turn(), started=started)
        assert await stage.exchanges() == []
    assert stage.pieces() == []


async def test_pieces_without_text_and_reasoning_are_not_published(clock: Clock) -> None:
    pieces: list[Piece] = [
        AIMessageChunk(content=[]),
        "Hel",
        AIMessageChunk(content=[{"type": "text", "text": "lo"}]),
        AIMessageChunk(content=[{"type": "thinking", "thinking": "x"}]),
        "",
        AIMessageChunk(content=[{"type": "text", "text": " 👋", "index": 0}]),
    ]
    async with Stage(says(*pieces), clock) as stage:
        await stage.answer(turn())
        assert await stage.exchanges() == [("Hi", "Hello 👋")]
    assert stage.pieces() == [("Hel", False), ("lo", False), (" 👋", False), ("", True)]


async def test_neither_a_piece_nor_the_end_waits_for_the_store_but_the_answer_does(clock: Clock) -> None:
    saver = SteeredSaver()
    saver.open.clear()
    async with Stage(says("a", "b"), clock, saver=saver) as stage:
        task = stage.answer(turn())
        await until(saver.reached, task)
        assert stage.pieces() == [("a", False), ("b", False), ("", True)]
        assert not task.done()
        saver.open.set()
        await task
        assert await stage.exchanges() == [("Hi", "ab")]


async def test_no_piece_no_end_and_no_answer_waits_for_a_compaction(clock: Clock) -> None:
    summariser = Summariser()
    async with Stage(says("x" * 900), clock, summaries=summariser.model) as stage:
        for number in range(12):
            clock.move(seconds=1)
            await stage.answer(turn(f"q{number}", f"t{number}"))
        assert summariser.begun.is_set()
        assert not any("Summary" in text for text in texts(stage.model.requests[-1]))
        summariser.release.set()
        await stage.context.settled()
        await stage.answer(turn("and now?", "u"))
        assert "summary> S" in texts(stage.model.requests[-1])[1]
    assert len([out for out in stage.voice.outputs if out.final]) == 13


async def test_history_sent_again_to_a_new_process_is_known_and_nothing_of_it_is_published(
    clock: Clock,
) -> None:
    saver, history = InMemorySaver(), list[AgentExchange]()
    async with Stage(says("x" * 900), clock, saver=saver) as stage:
        for number in range(30):
            clock.move(seconds=1)
            result = await stage.answer(turn(f"q{number}", f"t{number}", exchanges=tuple(history[-20:])))
            assert result.exchange is not None
            history.append(result.exchange)
            await stage.context.settled()
        before = await stage.context.blocks("p")
    summaries = ScriptedModel()
    async with Stage(says("ok"), clock, saver=saver, summaries=summaries) as stage:
        await stage.answer(turn("and?", "u", exchanges=tuple(history[-20:])))
        assert await stage.context.blocks("p") == (*before, (await stage.context.blocks("p"))[-1])
        assert stage.pieces() == [("ok", False), ("", True)]
    assert summaries.requests == []


async def test_what_is_published_sees_the_context_variables_of_the_caller(clock: Clock) -> None:
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")
    seen: list[str] = []

    async def heard(_: ResponseOutput) -> None:
        seen.append(mark.get())

    async with Stage(says("a"), clock) as stage:
        stage.voice.listen = heard
        mark.set("caller's")
        await stage.talk.answer(turn())
    assert seen == ["caller's", "caller's"]


# a failure


async def test_a_failure_before_the_first_piece_publishes_nothing(clock: Clock) -> None:
    async with Stage(says("", RuntimeError("model")), clock) as stage:
        with pytest.raises(RuntimeError, match="model"):
            await stage.answer(turn())
        assert await stage.exchanges() == []
    assert (stage.pieces(), stage.started) == ([], 0)


async def test_a_failure_midway_ends_what_was_begun_and_reaches_the_caller(clock: Clock) -> None:
    async with Stage(says("a", RuntimeError("model")), clock, record_interrupted=True) as stage:
        with pytest.raises(RuntimeError, match="model"):
            await stage.answer(turn())
        assert await stage.exchanges() == []
    assert stage.pieces() == [("a", False), ("", True)]


@pytest.mark.parametrize("pieces", [(), ("", ""), ("  ", "\n"), ("<think>hm</think>",)])
async def test_an_empty_answer_is_an_error_and_leaves_no_trace(pieces: tuple[str, ...], clock: Clock) -> None:
    async with Stage(says(*pieces), clock) as stage:
        with pytest.raises(EmptyAnswerError):
            await stage.answer(turn())
        assert await stage.exchanges() == []
    assert (stage.pieces(), stage.started) == ([], 0)


@pytest.mark.parametrize("failing", ["a", "b", ""])
async def test_a_publication_that_fails_reaches_the_caller_and_nothing_is_recorded(
    failing: str, clock: Clock
) -> None:
    class Other(Agent):
        @subscribe(VOICE_OUTPUT_TOPIC)
        async def output(self, message: ResponseOutput, context: RuntimeContext) -> None:
            if message.text == failing:
                raise OSError("listener")

    async with Stage(says("a", "b"), clock, agents=(Other(),)) as stage:
        with pytest.raises(ExceptionGroup) as caught:
            await stage.answer(turn())
        assert isinstance(caught.value.exceptions[0], OSError)
        assert await stage.exchanges() == []
        assert stage.model.closed == 1


async def test_a_store_that_fails_reaches_the_caller_after_the_end_was_published(clock: Clock) -> None:
    saver = SteeredSaver()
    saver.error = OSError("disk full")
    async with Stage(says("a"), clock, saver=saver) as stage:
        with pytest.raises(OSError, match="disk full"):
            await stage.answer(turn())
        saver.error = None
    assert stage.pieces() == [("a", False), ("", True)]


async def test_a_runtime_that_is_not_running_is_told_to_the_caller(clock: Clock) -> None:
    stage = Stage(says("a"), clock)
    with pytest.raises(RuntimeClosedError):
        await stage.answer(turn())
    assert await stage.exchanges() == []
    assert stage.model.closed == 1


async def test_an_answer_whose_runtime_is_stopped_fails_and_is_not_recorded(clock: Clock) -> None:
    held = asyncio.Event()
    async with Stage(says("a", "b"), clock) as stage:

        async def hold(output: ResponseOutput) -> None:
            if output.text == "b":
                held.set()
                await asyncio.Event().wait()

        stage.voice.listen = hold
        task = stage.answer(turn())
        await until(held, task)
        await stage.runtime.stop()
        assert isinstance(await gone(task), BaseExceptionGroup)
        assert await stage.exchanges() == []
        stage.voice.responses.clear()  # nobody can be told any more


# a cancellation


async def test_a_cancelled_answer_closes_the_model_and_ends_with_one_empty_piece(clock: Clock) -> None:
    speaker = Speaker("a", "b", "c")
    async with Stage(speaker.model, clock) as stage:
        task = stage.answer(turn())
        speaker.tell(2)
        await until(speaker.waiting, task)
        await stage.voice.heard(2)
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert stage.model.closed == 1
        assert await stage.exchanges() == []
        assert await stage.context.blocks("p") == ()
    assert stage.pieces() == [("a", False), ("b", False), ("", True)]


async def test_an_answer_cancelled_before_its_first_piece_publishes_nothing(clock: Clock) -> None:
    speaker = Speaker("a")
    async with Stage(speaker.model, clock) as stage:
        task = stage.answer(turn())
        await until(speaker.waiting, task)
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert stage.model.closed == 1
    assert (stage.pieces(), stage.started) == ([], 0)


async def test_an_answer_cancelled_before_it_begins_asks_no_model(clock: Clock) -> None:
    async with Stage(says("a"), clock) as stage:
        task = stage.answer(turn())
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
    assert stage.model.requests == []


async def test_further_cancellations_wait_until_the_model_is_closed_and_the_end_is_published(
    clock: Clock,
) -> None:
    speaker, closing, closed = Speaker("a", "b"), asyncio.Event(), asyncio.Event()

    async def close() -> None:
        closing.set()
        await closed.wait()

    speaker.closing = close
    async with Stage(speaker.model, clock) as stage:
        task = await stage.halfway(speaker)
        task.cancel()
        await until(closing, task)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        closed.set()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert stage.model.closed == 1
    assert stage.pieces() == [("a", False), ("", True)]


@pytest.mark.parametrize("blocked", ["a", "b"])
async def test_an_answer_can_be_cancelled_while_a_listener_holds_a_piece_up(
    blocked: str, clock: Clock
) -> None:
    held = asyncio.Event()

    async def hold(output: ResponseOutput) -> None:
        if output.text == blocked:
            held.set()
            await asyncio.Event().wait()

    async with Stage(says("a", "b", "c"), clock) as stage:
        stage.voice.listen = hold
        task = stage.answer(turn())
        await until(held, task)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert stage.model.closed == 1
        assert await stage.exchanges() == []
    assert stage.pieces()[-2:] == [(blocked, False), ("", True)]


async def test_an_end_that_a_listener_holds_up_is_published_once_however_often_it_is_cancelled(
    clock: Clock,
) -> None:
    speaker, held, go_on = Speaker("a", "b"), asyncio.Event(), asyncio.Event()

    async def hold(output: ResponseOutput) -> None:
        if output.final:
            held.set()
            await go_on.wait()

    async with Stage(speaker.model, clock) as stage:
        stage.voice.listen = hold
        task = await stage.halfway(speaker)
        task.cancel()
        await until(held, task)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        assert isinstance(await gone(task), asyncio.CancelledError)
    assert stage.pieces() == [("a", False), ("", True)]


async def test_an_answer_that_the_model_had_ended_is_recorded_before_the_cancellation_goes_on(
    clock: Clock,
) -> None:
    held, go_on = asyncio.Event(), asyncio.Event()

    async def hold(output: ResponseOutput) -> None:
        if output.final:
            held.set()
            await go_on.wait()

    async with Stage(says("a"), clock) as stage:
        stage.voice.listen = hold
        task = stage.answer(turn())
        await until(held, task)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        go_on.set()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert await stage.exchanges() == [("Hi", "a")]
    assert stage.pieces() == [("a", False), ("", True)]


async def test_an_answer_cancelled_while_it_is_recorded_is_recorded(clock: Clock) -> None:
    saver = SteeredSaver()
    saver.open.clear()
    async with Stage(says("a"), clock, saver=saver) as stage:
        task = stage.answer(turn())
        await until(saver.reached, task)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        saver.open.set()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert await stage.exchanges() == [("Hi", "a")]


async def test_a_listener_that_fails_at_the_end_of_a_cancelled_answer_does_not_hide_the_cancellation(
    clock: Clock,
) -> None:
    speaker = Speaker("a", "b")

    async def fail(output: ResponseOutput) -> None:
        if output.final:
            raise OSError("listener")

    async with Stage(speaker.model, clock) as stage:
        stage.voice.listen = fail
        task = await stage.halfway(speaker)
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)


async def test_an_answer_is_whole_or_nothing_wherever_it_is_cancelled(clock: Clock) -> None:
    """Cancels after each number of steps of the event loop that an answer takes."""
    outcomes: set[tuple[bool, bool]] = set()
    for steps in range(1, 400):
        async with Stage(says("a", "b"), clock) as stage:
            task = stage.answer(turn())
            for _ in range(steps):
                await asyncio.sleep(0)
            cancelled = task.cancel()
            await gone(task)
            recorded = await stage.exchanges()
        if stage.pieces():
            assert stage.pieces()[-1] == ("", True)
        assert recorded in ([], [("Hi", "ab")])
        if recorded:
            assert stage.pieces() == [("a", False), ("b", False), ("", True)]
        outcomes.add((bool(stage.pieces()), bool(recorded)))
        if not cancelled:
            break
    else:
        pytest.fail("the answer takes more steps than were tried")
    assert outcomes == {(False, False), (True, False), (True, True)}


# what a router has of earlier exchanges

EARLIER = (AgentExchange("My name is Ann.", "Hello Ann.", ASKED_US, "e1"),)


async def test_an_answer_sees_the_history_of_its_turn(clock: Clock) -> None:
    async with Stage(says("Ann."), clock) as stage:
        await stage.answer(turn("Who am I?", exchanges=EARLIER))
        assert await stage.exchanges() == [("My name is Ann.", "Hello Ann."), ("Who am I?", "Ann.")]
    assert "user> My name is Ann." in texts(stage.model.requests[0])[1]


async def test_the_model_is_asked_before_the_history_is_stored_and_the_record_comes_after(
    clock: Clock,
) -> None:
    saver, speaker = SteeredSaver(), Speaker("Ann.")
    saver.open.clear()
    async with Stage(speaker.model, clock, saver=saver) as stage:
        task = stage.answer(turn("Who am I?", exchanges=EARLIER))
        await until(saver.reached, task)
        await until(speaker.waiting, task)
        speaker.tell(2)
        await stage.voice.heard(2)
        assert not task.done()
        saver.open.set()
        await task
        assert await stage.exchanges() == [("My name is Ann.", "Hello Ann."), ("Who am I?", "Ann.")]


async def test_history_that_cannot_be_stored_reaches_the_caller_after_the_end(clock: Clock) -> None:
    saver = SteeredSaver()
    saver.error = OSError("disk full")
    async with Stage(says("a"), clock, saver=saver) as stage:
        with pytest.raises(OSError, match="disk full"):
            await stage.answer(turn(exchanges=EARLIER))
        saver.error = None
    assert stage.pieces() == [("a", False), ("", True)]


async def test_a_cancelled_answer_has_stored_its_history_when_it_ends(clock: Clock) -> None:
    saver, speaker = SteeredSaver(), Speaker("a")
    saver.open.clear()
    async with Stage(speaker.model, clock, saver=saver) as stage:
        task = stage.answer(turn(exchanges=EARLIER))
        await until(speaker.waiting, task)
        await until(saver.reached, task)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        saver.open.set()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert await stage.exchanges() == [("My name is Ann.", "Hello Ann.")]


async def test_the_answers_of_a_conversation_come_back_as_history_and_are_known(clock: Clock) -> None:
    history: tuple[AgentExchange, ...] = ()
    async with Stage(says("ok"), clock) as stage:
        for number in range(6):
            clock.move(seconds=1)
            result = await stage.answer(turn(f"q{number}", f"t{number}", exchanges=history[-3:]))
            assert result.exchange is not None
            history += (result.exchange,)
        assert await stage.exchanges() == [(f"q{number}", "ok") for number in range(6)]
    assert len([out for out in stage.voice.outputs if out.final]) == 6


async def test_two_writers_whose_exchanges_interleave_are_warned_about(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Stage(says("ok"), clock) as stage:
        for number in range(4):
            await stage.context.record_exchange("p", f"secret {number}", "ok")
        window = [AgentExchange(text, "ok") for text in ("secret 1", "other", "secret 2", "secret 3")]
        await stage.context.reconcile("p", window)
    (message,) = [record.getMessage() for record in caplog.records if "writer" in record.getMessage()]
    assert "3 exchanges" in message
    assert "secret" not in message


async def test_a_history_window_that_goes_on_is_not_warned_about(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with Stage(says("ok"), clock) as stage:
        for text in ("yes", "no"):
            await stage.context.record_exchange("p", text, "ok")
        window = [AgentExchange(text, "ok") for text in ("yes", "no", "yes", "new")]
        await stage.context.reconcile("p", window)
    assert not caplog.records


# interrupted answers


async def test_an_interrupted_answer_is_remembered_with_what_had_been_taken_if_wanted(clock: Clock) -> None:
    held = asyncio.Event()

    async def hold(output: ResponseOutput) -> None:
        if output.text == "three":
            held.set()
            await asyncio.Event().wait()

    async with Stage(says("one ", "two ", "three"), clock, record_interrupted=True) as stage:
        stage.voice.listen = hold
        task = stage.answer(turn("Count."))
        await until(held, task)
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert await stage.exchanges() == [("Count.", "one two ")]
        (block,) = await stage.context.blocks("p")
    assert block.text == (
        "Exchange at 2026-03-02 14:00:00 +01:00, interrupted:\nuser> Count.\nassistant> one two "
    )


async def test_what_was_asked_is_remembered_although_nothing_had_been_answered(clock: Clock) -> None:
    speaker = Speaker("a")
    async with Stage(speaker.model, clock, record_interrupted=True) as stage:
        task = stage.answer(turn("My name is Ann."))
        await until(speaker.waiting, task)
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
        (block,) = await stage.context.blocks("p")
    assert block.text == "Exchange at 2026-03-02 14:00:00 +01:00, interrupted:\nuser> My name is Ann."


async def test_an_interrupted_answer_does_not_stand_in_the_way_of_a_routers_history(clock: Clock) -> None:
    speaker = Speaker("a")
    async with Stage(speaker.model, clock, record_interrupted=True) as stage:
        known = [AgentExchange("one", "ok"), AgentExchange("two", "ok")]
        await stage.context.reconcile("p", known)
        task = stage.answer(turn("cut short", exchanges=tuple(known)))
        await until(speaker.waiting, task)
        task.cancel()
        await gone(task)
        clock.move(seconds=1)
        await stage.context.reconcile("p", [*known, AgentExchange("three", "ok")])
        asked = [request for request, _ in await stage.exchanges()]
    assert asked == ["one", "two", "cut short", "three"]


async def test_a_stream_that_is_left_is_remembered_with_what_was_given_out_if_wanted(clock: Clock) -> None:
    async with Stage(says("one ", "two ", "three"), clock, record_interrupted=True) as stage:
        pieces = stage.talk.stream("p", "Count.")
        await anext(pieces)
        await anext(pieces)
        await pieces.aclose()
        assert await stage.exchanges() == [("Count.", "one two ")]


@pytest.mark.parametrize("gap", range(12))
async def test_a_stream_that_is_cancelled_again_while_it_ends_leaves_no_model_and_no_task(
    gap: int, clock: Clock
) -> None:
    speaker = Speaker("a", "b")
    async with Stage(speaker.model, clock) as stage:

        async def listen() -> None:
            async for _ in stage.talk.stream("p", "Hi"):
                pass

        task = asyncio.create_task(listen())
        speaker.tell()
        await until(speaker.waiting, task)
        task.cancel()
        for _ in range(gap):
            await asyncio.sleep(0)
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert stage.model.closed == 1


async def test_what_was_asked_is_remembered_although_it_was_interrupted_before_anything_was_known(
    clock: Clock,
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    class Slow(SteeredSaver):
        async def aget_tuple(self, config: Any) -> Any:
            reached.set()
            await go_on.wait()
            return await super().aget_tuple(config)

    async with Stage(says("a"), clock, saver=Slow(), record_interrupted=True) as stage:
        go_on.set()
        await stage.context.record_exchange("p", "earlier", "ok")
        reached.clear()
        go_on.clear()
        task = stage.answer(turn("My name is Ann."))
        await until(reached, task)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert [request for request, _ in await stage.exchanges()] == ["earlier", "My name is Ann."]


async def test_no_text_follows_a_cancellation_that_somebody_has_swallowed(clock: Clock) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def started() -> None:
        entered.set()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            return

    async with Stage(says("a", "b"), clock) as stage:
        task = asyncio.create_task(stage.talk.answer(turn(), started=started))
        await until(entered, task)
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
        assert await stage.exchanges() == []
    assert stage.pieces() == []


async def test_a_stream_whose_interruption_cannot_be_recorded_is_cancelled_all_the_same(clock: Clock) -> None:
    saver, speaker = SteeredSaver(), Speaker("a")
    async with Stage(speaker.model, clock, saver=saver, record_interrupted=True) as stage:

        async def listen() -> None:
            async for _ in stage.talk.stream("p", "Hi"):
                pass

        task = asyncio.create_task(listen())
        await until(speaker.waiting, task)
        saver.error = OSError("disk full")
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
        saver.error = None


async def test_a_record_of_an_interrupted_answer_that_fails_does_not_hide_the_cancellation(
    clock: Clock,
) -> None:
    saver, speaker = SteeredSaver(), Speaker("a")
    async with Stage(speaker.model, clock, saver=saver, record_interrupted=True) as stage:
        task = stage.answer(turn())
        await until(speaker.waiting, task)
        saver.error = OSError("disk full")
        task.cancel()
        assert isinstance(await gone(task), asyncio.CancelledError)
        saver.error = None


# its life


async def test_it_is_a_routable_agent_that_takes_every_turn_until_it_is_closed(clock: Clock) -> None:
    async with Stage(says("ok"), clock) as stage:
        assert isinstance(stage.talk, RoutableAgent)
        assert stage.talk.routing is None
        assert (await stage.talk.admit(turn())).disposition == "accept"
        await stage.talk.close()
        assert (await stage.talk.admit(turn())).disposition == "decline"
        with pytest.raises(RuntimeError, match="closed"):
            await stage.answer(turn())
    assert stage.model.requests == []


async def test_closing_lets_an_answer_under_way_end(clock: Clock) -> None:
    speaker = Speaker("a", "b")
    async with Stage(speaker.model, clock) as stage:
        task = stage.answer(turn())
        await until(speaker.waiting, task)
        await stage.talk.close()
        speaker.tell(3)
        await task
        assert await stage.exchanges() == [("Hi", "ab")]


async def test_release_and_departure_leave_the_context_of_a_shared_manager(clock: Clock) -> None:
    async with Stage(says("ok"), clock) as stage:
        await stage.answer(turn())
        await stage.talk.release("p")
        await stage.talk.participant_left("p")
        assert await stage.exchanges() == [("Hi", "ok")]


async def test_an_answer_of_a_cleared_participant_is_the_start_of_a_new_context(clock: Clock) -> None:
    speaker = Speaker("a")
    async with Stage(speaker.model, clock) as stage:
        await stage.context.record_exchange("p", "old", "old")
        task = stage.answer(turn())
        await until(speaker.waiting, task)
        await stage.context.clear("p")
        speaker.tell(2)
        await task
        assert await stage.exchanges() == [("Hi", "a")]


async def test_an_answer_that_ends_after_its_manager_was_closed_is_dropped(clock: Clock) -> None:
    saver, speaker = SteeredSaver(), Speaker("a")
    async with Stage(speaker.model, clock, saver=saver) as stage:
        task = stage.answer(turn(exchanges=EARLIER))
        await until(speaker.waiting, task)
        await stage.context.close()
        speaker.tell(2)
        assert (await task).exchange is not None
        again = ContextManager(ScriptedModel(), clock=clock, checkpointer=saver)
        assert not any("user> Hi" in block.text for block in await again.blocks("p"))


async def test_two_conversations_share_what_is_remembered(clock: Clock) -> None:
    async with Stage(says("ok"), clock) as stage:
        other_model = ScriptedModel(script=says("yes"))
        other = Conversation(
            other_model, context=stage.context, runtime=stage.runtime, output_topic=VOICE_OUTPUT_TOPIC
        )
        await stage.answer(turn("My name is Ann."))
        await other.answer(turn("Who am I?", "u"))
    assert "user> My name is Ann." in texts(other_model.requests[0])[1]


async def test_answers_of_many_participants_at_once_never_mix(clock: Clock) -> None:
    async def script(messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        for letter in f"to {messages[-1].content}":
            await asyncio.sleep(0)
            yield letter

    async with Stage(script, clock) as stage:
        names = [f"person {number}" for number in range(50)]
        await asyncio.gather(*(stage.answer(turn(name, name, name)) for name in names))
        for name in names:
            assert stage.voice.said(name) == [f"to {name}"]
            assert await stage.exchanges(name) == [(name, f"to {name}")]


async def test_runtime_and_output_topic_go_together(clock: Clock) -> None:
    context = ContextManager(ScriptedModel(), clock=clock)
    for options in ({"runtime": AgentRuntime()}, {"output_topic": VOICE_OUTPUT_TOPIC}):
        with pytest.raises(ValueError, match="runtime and output_topic"):
            Conversation(ScriptedModel(), context=context, **options)
    with pytest.raises(RuntimeError, match="runtime"):
        await Conversation(ScriptedModel(), context=context).answer(turn())


@pytest.mark.parametrize(
    "fields",
    [
        {"timestamp_us": 10**20},
        {"timestamp_us": -1},
        {"timestamp_us": 253_402_300_799_999_999},
        {"turn_id": "t\ud800"},
    ],
)
async def test_a_turn_that_cannot_be_replied_to_is_refused_before_anything_is_asked(
    fields: dict[str, Any], clock: Clock
) -> None:
    async with Stage(says("a"), clock) as stage:
        with pytest.raises(ValueError, match=r"timestamp|request_id"):
            await stage.answer(turn(**fields))
    assert (stage.model.requests, stage.started) == ([], 0)


# in a router


class NoDecisions:
    async def decide(self, *_: object, **__: object) -> None:
        raise AssertionError("there is nothing to choose between")


async def test_a_routers_answer_has_the_routing_name_as_its_source_and_comes_back_as_history(
    clock: Clock,
) -> None:
    said: list[str] = []

    async def output(_: AgentTurn, __: str, text: str) -> None:
        said.append(text)

    async with Stage(says("ok"), clock) as stage:
        router = AgentRouter({"lab talk": stage.talk}, NoDecisions(), output=output)  # type: ignore[arg-type]
        for number in range(3):
            clock.move(seconds=1)
            assert (await router.handle(turn(f"q{number}", f"t{number}"))).outcome == "answered"
        assert await stage.exchanges() == [(f"q{number}", "ok") for number in range(3)]
        await router.stop()
    assert {spoken.source for spoken in stage.voice.responses} == {"lab talk"}
    assert said == []


async def test_a_router_reports_a_failure_before_the_first_piece_and_none_after_it(clock: Clock) -> None:
    said: list[str] = []

    async def output(_: AgentTurn, __: str, text: str) -> None:
        said.append(text)

    for pieces, reported in (((RuntimeError("model"),), 1), (("a", RuntimeError("model")), 0)):
        async with Stage(says(*pieces), clock) as stage:
            router = AgentRouter({"talk": stage.talk}, NoDecisions(), output=output)  # type: ignore[arg-type]
            assert (await router.handle(turn())).outcome == "failed"
            await router.stop()
        assert len(said) == reported
        said.clear()


async def test_a_listener_may_interrupt_the_answer_that_it_hears(clock: Clock) -> None:
    async def output(*_: object) -> None: ...

    async with Stage(says("a", "b"), clock) as stage:
        router = AgentRouter({"talk": stage.talk}, NoDecisions(), output=output)  # type: ignore[arg-type]

        async def interrupt(piece: ResponseOutput) -> None:
            if not piece.final:
                await router.interrupt("p")

        stage.voice.listen = interrupt
        assert (await router.handle(turn())).outcome == "cancelled"
        assert await stage.exchanges() == []
        await router.stop()
    assert stage.pieces() == [("a", False), ("", True)]


async def test_a_new_query_ends_the_answer_before_it_is_answered_itself(clock: Clock) -> None:
    speaker = Speaker("a", "b")

    async def output(*_: object) -> None:
        raise AssertionError("a router has nothing to say here")

    async with Stage(speaker.model, clock) as stage:
        router = AgentRouter({"talk": stage.talk}, NoDecisions(), output=output)  # type: ignore[arg-type]
        first = asyncio.create_task(router.handle(turn("first", "t1")))
        speaker.tell()
        await stage.voice.heard(1)
        second = asyncio.create_task(router.handle(turn("second", "t2")))
        assert (await first).outcome == "cancelled"
        assert stage.pieces() == [("a", False), ("", True)]
        speaker.tell(3)
        assert (await second).outcome == "answered"
        assert await stage.exchanges() == [("second", "ab")]
        await router.stop()
    assert [spoken.request for spoken in stage.voice.responses] == ["t1", "t2"]


async def test_an_interruption_ends_the_answer_of_one_participant_only(clock: Clock) -> None:
    go_on = asyncio.Event()

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        yield "a"
        await go_on.wait()
        yield "b"

    async def output(*_: object) -> None: ...

    async with Stage(script, clock) as stage:
        router = AgentRouter({"talk": stage.talk}, NoDecisions(), output=output)  # type: ignore[arg-type]
        tasks = [asyncio.create_task(router.handle(turn("Hi", "t", name))) for name in "pq"]
        await stage.voice.heard(2)
        await router.interrupt("p")
        assert (await tasks[0]).outcome == "cancelled"
        assert [spoken.open for spoken in stage.voice.responses if spoken.participant == "q"] == [True]
        go_on.set()
        assert (await tasks[1]).outcome == "answered"
        assert (await stage.exchanges("p"), await stage.exchanges("q")) == ([], [("Hi", "ab")])
        await router.stop()


async def test_an_answer_within_the_turn_of_another_is_not_published_under_that_ones_route(
    clock: Clock,
) -> None:
    async def output(*_: object) -> None: ...

    async with Stage(says("ok"), clock) as stage:

        class Doorbell:
            routing = None

            async def admit(self, _: AgentTurn) -> Admission:
                return Admission("accept")

            async def answer(self, _: AgentTurn, started: object = None) -> DestinationResult:
                await stage.talk.answer(turn("Who is there?", "other", "bob"))
                return DestinationResult(AgentExchange("ring", "rung"))

            async def release(self, _: str) -> None: ...

            async def participant_left(self, _: str) -> None: ...

        router = AgentRouter({"doorbell": Doorbell()}, NoDecisions(), output=output)  # type: ignore[arg-type]
        result = await router.handle(turn())
        await router.stop()
    assert [spoken.source for spoken in stage.voice.responses] == ["conversation"]
    assert result.exchange == AgentExchange("ring", "rung", turn_id="t")


async def test_who_comes_under_the_id_of_a_departed_participant_finds_nothing(clock: Clock) -> None:
    async def output(*_: object) -> None: ...

    async with Stage(says("ok"), clock) as stage:
        router = AgentRouter({"talk": stage.talk}, NoDecisions(), output=output)  # type: ignore[arg-type]
        await router.handle(turn("The code is 1234."))
        clock.move(hours=3)  # no pause makes it forget
        await router.handle(turn("What is the code?", "t2"))
        assert "1234" in texts(stage.model.requests[-1])[1]
        await router.participant_left("p")
        await stage.context.clear("p")
        await router.handle(turn("What is the code?", "t3"))
        await router.stop()
    assert "1234" not in "".join(texts(stage.model.requests[-1]))
