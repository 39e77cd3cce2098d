# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Orders that were once broken: of event loops, of the steps of a compaction, and of cancellations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import closing
from itertools import groupby
from typing import Any

import pytest
from conftest import OpenSaver
from fakes.chat import Piece, ScriptedModel, says
from fakes.clock import Clock
from fakes.saver import SteeredSaver
from fakes.summariser import Summariser
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt
from recorded import requests

from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.graph.stores import Saver, thread
from xr_ai_conversation.xr import AgentExchange


class HeldReads(SteeredSaver):
    """A saver that holds up one read on its way back: what it has found may be old when it arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = False
        """The next read is held up."""
        self.held = asyncio.Event()
        """Set when it has read."""
        self.release = asyncio.Event()
        """It returns when this is set."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = await super().aget_tuple(config)
        if self.hold:
            self.hold = False
            self.held.set()
            await self.release.wait()
        return found


class StubbornSummariser(Summariser):
    """A summariser whose summaries end when released, also when they are cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelling = asyncio.Event()

    async def _script(self, messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        try:
            async for piece in super()._script(messages):
                yield piece
        except asyncio.CancelledError:
            self.cancelling.set()
            await self.release.wait()
            raise


def manager(model: ScriptedModel, clock: Clock, saver: Saver | None = None) -> ContextManager:
    return ContextManager(model, clock=clock, checkpointer=saver, incremental_context_topics=["notes"])


async def fill(context: ContextManager, mark: str = "old", count: int = 7) -> None:
    for number in range(count):
        await context.record_exchange("p", f"{mark} {number}", "x" * 700)


async def overfill(saver: Saver, clock: Clock, count: int = 7) -> None:
    """Leave a context in a store whose compaction is due, as a process does that ends before it."""
    async with manager(ScriptedModel(script=says(ConnectionError("down"))), clock, saver) as context:
        await fill(context, count=count)
        await context.settled()


async def answer(talk: Conversation, text: str) -> str:
    return "".join([piece async for piece in talk.stream("p", text)])


async def summary(context: ContextManager) -> str | None:
    found = (await context.snapshot("p"))["dialogue"]["summary"]
    return found["text"] if found else None


async def ticks(count: int) -> None:
    """Let the event loop make so many rounds."""
    for _ in range(count):
        await asyncio.sleep(0)


async def soon(work: Coroutine[Any, Any, object]) -> None:
    """Await work that a cancellation does not cut short, but not for ever."""
    task = asyncio.create_task(work)
    await asyncio.wait([task], timeout=10)
    assert task.done()
    await task


async def refused(context: ContextManager) -> None:
    with pytest.raises(ValueError, match="must be a configured one"):
        await context.update("p", "unknown", "x")


CHANGE_NOTHING: dict[str, Callable[[ContextManager], Awaitable[object]]] = {
    "the same turn": lambda context: context.record_exchange("p", "a", "1", turn_id="t"),
    "known history": lambda context: context.reconcile("p", [AgentExchange("a", "1", turn_id="t")]),
    "no history": lambda context: context.reconcile("p", []),
    "reading": lambda context: context.blocks("p"),
    "settling": lambda context: context.settled(),
    "settling one": lambda context: context.settled("p"),
    "clearing another": lambda context: context.clear("q"),
    "a refused update": refused,
}


@pytest.mark.parametrize("call", CHANGE_NOTHING.values(), ids=CHANGE_NOTHING.keys())
def test_a_first_call_that_changes_nothing_in_the_next_event_loop_loses_nothing(
    clock: Clock, call: Callable[[ContextManager], Awaitable[object]]
) -> None:
    context = manager(ScriptedModel(), clock)

    async def second() -> None:
        await call(context)

    asyncio.run(context.record_exchange("p", "a", "1", turn_id="t"))
    asyncio.run(second())
    assert asyncio.run(requests(context)) == ["a"]
    asyncio.run(context.record_exchange("p", "b", "2"))
    assert asyncio.run(requests(context)) == ["a", "b"]


def test_the_next_event_loop_is_refused_while_the_former_is_suspended_in_a_call(clock: Clock) -> None:
    saver = SteeredSaver()
    context = manager(ScriptedModel(), clock, saver)

    async def begin() -> asyncio.Task[None]:
        saver.open.clear()
        task = asyncio.create_task(context.record_exchange("p", "first", "ok"))
        await saver.reached.wait()
        return task

    with closing(asyncio.new_event_loop()) as first, closing(asyncio.new_event_loop()) as second:
        committing = first.run_until_complete(begin())
        calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
            lambda: context.record_exchange("p", "second", "ok"),
            lambda: context.blocks("p"),
            lambda: context.settled(),
            lambda: context.clear("p"),
            lambda: context.close(),
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="one event loop at a time"):
                second.run_until_complete(soon(call()))
        saver.open.set()
        first.run_until_complete(committing)
        second.run_until_complete(context.record_exchange("p", "second", "ok"))
        assert second.run_until_complete(requests(context)) == ["first", "second"]


def test_a_call_that_a_closed_event_loop_left_unfinished_hinders_nobody(clock: Clock) -> None:
    saver = HeldReads()
    context = manager(ScriptedModel(), clock, saver)
    asyncio.run(context.record_exchange("p", "a", "1"))

    async def begin() -> asyncio.Task[None]:
        saver.hold = True
        task = asyncio.create_task(context.record_exchange("p", "left", "ok"))
        await saver.held.wait()
        return task

    with closing(asyncio.new_event_loop()) as first:
        left = first.run_until_complete(begin())
    assert not left.done()

    asyncio.run(soon(context.record_exchange("p", "b", "2")))
    assert asyncio.run(requests(context)) == ["a", "b"]


@pytest.mark.parametrize("cancelled", [True, False], ids=["that cancels its work", "that drops its work"])
def test_settled_is_a_fine_first_call_after_an_event_loop(clock: Clock, cancelled: bool) -> None:
    saver = HeldReads()
    context = manager(ScriptedModel(script=says("S")), clock, saver)

    async def first() -> None:
        await overfill(saver, clock)
        await context.blocks("p")
        saver.hold = True
        await saver.held.wait()

    async def second() -> str | None:
        async with asyncio.timeout(10):
            await context.settled()
        return await summary(context)

    if cancelled:
        asyncio.run(first())
    else:
        with closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(first())
    assert asyncio.run(second()) == "S"


@pytest.mark.parametrize("reading", [True, False], ids=["while it is found", "when it was found"])
async def test_a_compaction_that_is_closed_before_its_first_step_is_over(clock: Clock, reading: bool) -> None:
    saver = HeldReads()
    await overfill(saver, clock)
    model = ScriptedModel()
    context = manager(model, clock, saver)
    if reading:
        saver.hold = True
        finding = asyncio.create_task(context.blocks("p"))
        await saver.held.wait()
        saver.release.set()  # the read goes on and finds what is due, and closing begins, before the job does
    else:
        assert await context.blocks("p")
    await context.close()
    assert not reading or await finding
    async with asyncio.timeout(10):
        await context.settled()
        await context.settled("p")
    assert model.requests == []


@pytest.mark.parametrize("touch", ["blocks", "record"])
async def test_whenever_a_clear_meets_what_starts_a_compaction_later_ones_run(
    clock: Clock, touch: str
) -> None:
    for moment in range(20):
        saver = SteeredSaver()
        await overfill(saver, clock)
        context = manager(ScriptedModel(script=says("S")), clock, saver)
        starting = context.blocks("p") if touch == "blocks" else context.record_exchange("p", "old", "ok")

        async def later(context: ContextManager = context, moment: int = moment) -> None:
            await ticks(moment)
            await context.update("p", "notes", "it is in use")

        await asyncio.gather(starting, context.clear("p"), later())
        await fill(context, mark="new", count=8)
        async with asyncio.timeout(10):
            await context.settled("p")
        assert await summary(context) == "S", moment


async def test_what_is_committed_while_a_compaction_looks_a_last_time_is_compacted(clock: Clock) -> None:
    saver, summariser = HeldReads(), StubbornSummariser()
    context = manager(summariser.model, clock, saver)
    await fill(context)
    await summariser.begun.wait()
    saver.open.clear()
    saver.reached.clear()
    summariser.release.set()
    await saver.reached.wait()
    saver.hold = True  # the next read is the last look of the compaction that is being committed
    saver.open.set()
    await saver.held.wait()
    await fill(context, mark="later")
    saver.release.set()
    await context.settled("p")
    assert len(summariser.model.requests) == 2
    assert await requests(context) == ["later 6"]


async def test_a_clear_that_is_cancelled_while_it_waits_goes_to_its_end(clock: Clock) -> None:
    saver, summariser = SteeredSaver(), StubbornSummariser()
    context = manager(summariser.model, clock, saver)
    await fill(context)
    await summariser.begun.wait()
    clearing = asyncio.create_task(context.clear("p"))
    await summariser.cancelling.wait()
    for _ in range(3):
        clearing.cancel()
        await ticks(2)
    assert not clearing.done()
    summariser.release.set()
    with pytest.raises(asyncio.CancelledError):
        await clearing
    assert clearing.cancelled()
    assert await context.blocks("p") == ()
    assert "p" not in saver.storage
    await fill(context, mark="new")
    await context.settled("p")
    assert await summary(context) == "S"


async def test_a_close_that_is_cancelled_while_it_waits_goes_to_its_end(clock: Clock) -> None:
    before = asyncio.all_tasks()
    saver, summariser = SteeredSaver(), StubbornSummariser()
    context = manager(summariser.model, clock, saver)
    await fill(context)
    await summariser.begun.wait()
    closing_down = asyncio.create_task(context.close())
    await summariser.cancelling.wait()
    for _ in range(3):
        closing_down.cancel()
        await ticks(2)
    assert not closing_down.done()
    await context.record_exchange("p", "too late", "ok")
    summariser.release.set()
    with pytest.raises(asyncio.CancelledError):
        await closing_down
    assert asyncio.all_tasks() == before
    await context.record_exchange("p", "too late", "ok")
    async with manager(ScriptedModel(), clock, saver) as other:
        assert await requests(other) == [f"old {number}" for number in range(7)]


async def test_a_clear_cancelled_at_any_moment_has_forgotten_all_or_has_not_begun(
    open_saver: OpenSaver, clock: Clock
) -> None:
    async with open_saver() as saver, manager(ScriptedModel(), clock, saver) as context:
        for moment in range(25):
            await context.record_exchange("p", "a", "1", turn_id="t")
            assert await requests(context) == ["a"]
            clearing = asyncio.create_task(context.clear("p"))
            await ticks(moment)
            in_time = clearing.cancel()
            await asyncio.wait([clearing])
            assert clearing.cancelled() == in_time
            known = await requests(context)
            stored = [found async for found in saver.alist(thread("p"))]
            assert (known, bool(stored)) == (([], False) if moment else (["a"], True))


@pytest.mark.parametrize("interrupted_too", [False, True])
async def test_a_cancellation_at_any_moment_ends_the_task_and_the_exchange_is_recorded_once_or_not(
    clock: Clock, interrupted_too: bool
) -> None:
    outcomes: list[str] = []
    for moment in range(1_000):
        context = manager(ScriptedModel(), clock)
        model = ScriptedModel(script=says("one ", "two"))
        talk = Conversation(model, context=context, record_interrupted=interrupted_too)
        heard: list[str] = []

        async def listen(talk: Conversation = talk, heard: list[str] = heard) -> None:
            async for piece in talk.stream("p", "Hi"):
                heard.append(piece)  # noqa: PERF401 - a comprehension would note nothing if it is cancelled

        listening = asyncio.create_task(listen())
        await ticks(moment)
        if not listening.cancel():
            break
        await asyncio.wait([listening])
        assert listening.cancelled(), moment
        entries = (await context.snapshot("p"))["dialogue"]["entries"]
        recorded = [(entry["response"], "interrupted" in entry) for entry in entries if "response" in entry]
        if ("one two", False) in recorded:
            outcomes.append("whole")
            assert (recorded, heard) == ([("one two", False)], ["one ", "two"])
        elif recorded:
            outcomes.append("partly")
            assert recorded == [("".join(heard), True)]
        else:
            outcomes.append("not at all")
            assert not heard or not interrupted_too
    assert not listening.cancelled()
    expected = ["not at all", "partly", "whole"] if interrupted_too else ["not at all", "whole"]
    assert [outcome for outcome, _ in groupby(outcomes)] == expected


@pytest.mark.parametrize("interrupts", [(), (Interrupt("wait"),)], ids=["without a value", "with one"])
@pytest.mark.parametrize("pieces", [[], ["one ", "two"]], ids=["at once", "midway"])
async def test_an_answer_whose_run_is_interrupted_is_an_error_and_not_recorded(
    clock: Clock, pieces: list[Piece], interrupts: tuple[Interrupt, ...]
) -> None:
    model = ScriptedModel(script=says(*pieces, GraphInterrupt(interrupts)))
    context = manager(ScriptedModel(), clock)
    talk = Conversation(model, context=context)
    with pytest.raises(RuntimeError, match="broken off"):
        await answer(talk, "Hi")
    assert await context.blocks("p") == ()
    model.script = says("Better.")
    assert await answer(talk, "Again") == "Better."
    assert await requests(context) == ["Again"]


@pytest.mark.parametrize(
    "error", [GraphInterrupt(()), asyncio.CancelledError()], ids=["interrupted", "cancelled"]
)
async def test_a_compaction_whose_run_is_broken_off_keeps_the_entries_and_is_tried_again(
    clock: Clock, error: BaseException
) -> None:
    model = ScriptedModel(script=says("They", error))
    context = manager(model, clock)
    await fill(context)
    async with asyncio.timeout(10):
        await context.settled("p")
    assert await requests(context) == [f"old {number}" for number in range(7)]
    model.script = says("S")
    await context.record_exchange("p", "next", "ok")
    await context.settled("p")
    assert await summary(context) == "S"
    assert await requests(context) == ["next"]


@pytest.mark.parametrize("touch", ["blocks", "settled", "messages"])
async def test_a_read_that_was_under_way_while_its_participant_was_cleared_leaves_nothing_behind(
    clock: Clock, touch: str
) -> None:
    saver, model = HeldReads(), ScriptedModel()
    await overfill(saver, clock)
    context = manager(model, clock, saver)
    talk = Conversation(ScriptedModel(), context=context)
    reads: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "blocks": lambda: context.blocks("p"),
        "settled": lambda: context.settled("p"),
        "messages": lambda: talk.messages("p", "Hi"),
    }
    saver.hold = True
    reading = asyncio.create_task(reads[touch]())
    await saver.held.wait()
    await context.clear("p")
    saver.release.set()
    await reading
    assert context._participants.all() == ()
    assert model.requests == []
    assert await context.blocks("p") == ()


async def test_what_is_recorded_while_a_clear_is_under_way_is_kept_or_forgotten_whole(clock: Clock) -> None:
    for moment in range(20):
        context = manager(ScriptedModel(), clock)
        await context.record_exchange("p", "old", "1")
        clearing = asyncio.create_task(context.clear("p"))
        await ticks(moment)
        await context.record_exchange("p", "new", "2")
        await clearing
        known = await requests(context)
        await context.record_exchange("p", "newer", "3")
        assert await requests(context) == [*known, "newer"]
        assert "old" not in known
    assert known == ["new"]


class DeafReads(SteeredSaver):
    """A saver whose read after a commit swallows its cancellation, as drivers of databases may on Python 3.11."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        """After so many more commits it is deaf, once."""
        self.held = asyncio.Event()
        """Set when that read has begun."""

    async def aput(self, *args: Any) -> Any:
        self.commits -= 1
        return await super().aput(*args)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        if self.commits == 0 and not self.held.is_set():
            self.held.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
        return await super().aget_tuple(config)


@pytest.mark.parametrize("end", ["close", "clear"])
async def test_a_compaction_ends_with_its_manager_even_if_a_store_swallows_its_cancellation(
    clock: Clock, end: str
) -> None:
    saver, asked = DeafReads(), 0

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        nonlocal asked
        asked += 1
        yield "S" if asked < 20 else AssertionError("it goes on and on")

    saver.commits = -1
    await overfill(saver, clock, count=50)
    saver.commits = 1  # the next is that of the first request of a compaction that takes several
    context = manager(ScriptedModel(script=script), clock, saver)
    async with asyncio.timeout(10):
        assert await context.blocks("p")
        await saver.held.wait()
        await (context.close() if end == "close" else context.clear("p"))
    assert asked <= 2
