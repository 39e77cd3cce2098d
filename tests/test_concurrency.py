# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Many things at once on one participant: nothing lost, nothing doubled, nobody waits for a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from conftest import OpenSaver
from fakes.chat import Piece, ScriptedModel, replies, says, texts
from fakes.clock import Clock
from fakes.saver import SteeredSaver
from fakes.summariser import Summariser
from langchain_core.messages import BaseMessage
from recorded import requests

from xr_ai_conversation import ContextManager, Conversation


def manager(model: ScriptedModel, clock: Clock, **options: Any) -> ContextManager:
    return ContextManager(model, clock=clock, incremental_context_topics=["notes"], **options)


async def fill(context: ContextManager, participant: str = "p", mark: str = "old", count: int = 7) -> None:
    for number in range(count):
        await context.record_exchange(participant, f"{mark} {number}", "x" * 700)


async def answer(talk: Conversation, text: str, participant: str = "p") -> str:
    return "".join([piece async for piece in talk.stream(participant, text)])


async def shown(context: ContextManager, participant: str = "p") -> str:
    return "\n".join(block.text for block in await context.blocks(participant))


async def test_nothing_waits_for_a_compaction(clock: Clock) -> None:
    summariser = Summariser()
    context = manager(summariser.model, clock)
    talk = Conversation(ScriptedModel(script=says("quick")), context=context)
    await fill(context)
    await summariser.begun.wait()
    assert await answer(talk, "Hello") == "quick"
    await context.update("p", "notes", "a note")
    await context.record_exchange("p", "more", "ok")
    await context.reconcile("p", [])
    assert "a note" in await shown(context)
    assert not summariser.release.is_set()
    summariser.release.set()
    await context.settled()
    known = await shown(context)
    assert all(words in known for words in ("summary> S", "user> Hello", "a note", "user> more"))


async def test_an_answer_waits_for_no_other_answer_and_no_update(clock: Clock) -> None:
    release = asyncio.Event()

    async def script(messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        if messages[-1].content == "slow":
            await release.wait()
        yield "ok"

    context = manager(ScriptedModel(), clock)
    talk = Conversation(ScriptedModel(script=script), context=context)
    slow = asyncio.create_task(answer(talk, "slow"))
    for number in range(20):
        await asyncio.gather(answer(talk, f"quick {number}"), context.update("p", "notes", f"note {number}"))
    assert not slow.done()
    release.set()
    await slow
    found = await context.snapshot("p")
    assert len(found["dialogue"]["entries"]) == 21
    assert len(found["topics"]["notes"]["entries"]) == 20


async def test_participants_never_wait_for_each_other(clock: Clock) -> None:
    saver = SteeredSaver()
    context = manager(ScriptedModel(), clock, checkpointer=saver)
    await context.record_exchange("q", "a", "1")
    saver.open.clear()
    saver.reached.clear()
    held_up = asyncio.create_task(context.record_exchange("p", "a", "1"))
    await saver.reached.wait()
    assert "user> a" in await shown(context, "q")
    talk = Conversation(ScriptedModel(script=says("ok")), context=context)
    stream = talk.stream("q", "b")
    assert await anext(stream) == "ok"
    saver.open.set()
    assert [piece async for piece in stream] == []
    await held_up


async def test_the_first_piece_of_an_answer_does_not_wait_for_a_commit_of_the_same_participant(
    clock: Clock,
) -> None:
    saver = SteeredSaver()
    context = manager(ScriptedModel(), clock, checkpointer=saver)
    talk = Conversation(ScriptedModel(script=says("ok")), context=context)
    saver.open.clear()
    committing = asyncio.create_task(context.update("p", "notes", "x"))
    await saver.reached.wait()
    stream = talk.stream("p", "Hi")
    assert await anext(stream) == "ok"
    saver.open.set()
    assert [piece async for piece in stream] == []
    await committing


async def test_clear_cancels_a_running_compaction_and_nothing_old_returns(clock: Clock) -> None:
    summariser = Summariser()
    context = manager(summariser.model, clock)
    await fill(context)
    await summariser.begun.wait()
    await context.clear("p")
    assert summariser.cancelled == 1
    await fill(context, mark="new", count=3)
    summariser.release.set()
    await context.settled()
    assert [line for line in (await shown(context)).splitlines() if line.startswith("user>")] == [
        "user> new 0",
        "user> new 1",
        "user> new 2",
    ]


async def test_a_compaction_that_is_being_committed_while_it_is_cleared_does_not_return(clock: Clock) -> None:
    saver = SteeredSaver()
    summariser = Summariser()
    context = manager(summariser.model, clock, checkpointer=saver)
    await fill(context)
    await summariser.begun.wait()
    saver.open.clear()
    saver.reached.clear()
    summariser.release.set()
    await saver.reached.wait()
    clearing = asyncio.create_task(context.clear("p"))
    await asyncio.sleep(0)
    assert not clearing.done()
    saver.open.set()
    await clearing
    assert await context.blocks("p") == ()
    assert not saver.storage.get("p")


async def test_clear_does_not_wait_for_a_streaming_answer_which_begins_the_new_context(clock: Clock) -> None:
    release = asyncio.Event()

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        yield "one "
        await release.wait()
        yield "two"

    context = manager(ScriptedModel(), clock)
    talk = Conversation(ScriptedModel(script=script), context=context)
    await fill(context, count=2)
    stream = talk.stream("p", "Hi")
    assert await anext(stream) == "one "
    await context.clear("p")
    assert await context.blocks("p") == ()
    release.set()
    assert [piece async for piece in stream] == ["two"]
    (block,) = await context.blocks("p")
    assert block.text.endswith("user> Hi\nassistant> one two")


async def test_clear_leaves_the_compactions_of_others_alone(clock: Clock) -> None:
    summariser = Summariser()
    context = manager(summariser.model, clock)
    await fill(context, "p")
    await fill(context, "q")
    await summariser.begun.wait()
    await context.clear("p")
    summariser.release.set()
    await context.settled()
    assert "summary> S" in await shown(context, "q")


async def test_close_cancels_all_compactions_and_leaves_no_task(clock: Clock) -> None:
    before = asyncio.all_tasks()
    summariser = Summariser()
    context = manager(summariser.model, clock)
    for number in range(6):
        await fill(context, f"p{number}")
    await summariser.begun.wait()
    await context.close()
    assert summariser.cancelled == 4
    assert asyncio.all_tasks() == before


async def test_an_exchange_that_ends_after_close_is_dropped(clock: Clock) -> None:
    context = manager(ScriptedModel(), clock)
    talk = Conversation(ScriptedModel(script=says("one ", "two")), context=context)
    stream = talk.stream("p", "Hi")
    assert await anext(stream) == "one "
    await context.close()
    assert [piece async for piece in stream] == ["two"]
    assert await context.blocks("p") == ()


async def test_settled_waits_for_jobs_that_the_end_of_another_starts(clock: Clock) -> None:
    summariser = Summariser()
    context = manager(summariser.model, clock)
    await fill(context)
    await summariser.begun.wait()
    await fill(context, mark="later")
    settling = asyncio.create_task(context.settled("p"))
    summariser.release.set()
    await settling
    assert len(summariser.model.requests) == 2
    assert len((await context.snapshot("p"))["dialogue"]["entries"]) == 1


def test_a_compaction_that_its_event_loop_leaves_behind_is_due_in_the_next(clock: Clock) -> None:
    summariser: list[Summariser] = []

    async def first() -> ContextManager:
        summariser.append(Summariser())
        context = manager(summariser[0].model, clock)
        await fill(context)
        await summariser[0].begun.wait()
        return context

    async def second(context: ContextManager) -> str:
        await context.blocks("p")
        await context.settled()
        return await shown(context)

    context = asyncio.run(first())
    assert summariser[0].cancelled == 1
    summariser[0].model.script = says("S")
    assert "summary> S" in asyncio.run(second(context))


async def test_two_loops_at_once_are_refused(clock: Clock) -> None:
    context = manager(ScriptedModel(), clock)
    await context.record_exchange("p", "a", "1")

    def elsewhere() -> None:
        asyncio.run(context.record_exchange("p", "b", "2"))

    with pytest.raises(RuntimeError, match="one event loop at a time"):
        await asyncio.to_thread(elsewhere)


async def test_cancelled_records_are_whole_or_not_there_and_reported_ones_are_there(
    open_saver: OpenSaver,
) -> None:
    async with open_saver() as saver, ContextManager(ScriptedModel(), checkpointer=saver) as context:
        tasks = [asyncio.create_task(context.record_exchange("p", f"<{n}>", "ok")) for n in range(60)]
        for number in range(0, 60, 3):
            await asyncio.sleep(0.001)  # lets some begin; whichever have, the count below must hold
            tasks[number].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        found = await requests(context)
        reported = [f"<{n}>" for n, result in enumerate(results) if result is None]
        assert set(reported) <= set(found)
        assert len(found) == len(set(found))


async def test_sixty_answers_sixty_updates_thirty_records_and_compactions_lose_and_double_nothing(
    open_saver: OpenSaver,
) -> None:
    covered: list[str] = []

    async def summarise(messages: list[BaseMessage]) -> str:
        await asyncio.sleep(0)
        covered.append(texts(messages)[-1])
        return "S"

    async def script(messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        for piece in ("one ", "two ", "three"):
            await asyncio.sleep(0)
            yield piece

    def opened(saver: Any) -> ContextManager:
        return ContextManager(
            ScriptedModel(script=replies(summarise)),
            incremental_context_topics=["notes"],
            checkpointer=saver,
            dialogue_budget_bytes=3_000,
            topic_budget_bytes=3_000,
        )

    def count(verbatim: str, mark: str) -> int:
        return sum(text.count(mark) for text in [verbatim, *covered])

    async with open_saver() as saver:
        async with opened(saver) as context:
            talk = Conversation(ScriptedModel(script=script), context=context)
            async with asyncio.TaskGroup() as group:
                for number in range(60):
                    group.create_task(answer(talk, f"<a{number}>"))
                    group.create_task(context.update("p", "notes", f"<u{number}>"))
                    if number % 2:
                        group.create_task(context.record_exchange("p", f"<r{number}>", "recorded"))
                        group.create_task(context.record_exchange("p", "<t>", "same turn", turn_id="t"))
            await context.settled()
            before = await context.snapshot("p")
        verbatim = str(before["dialogue"]["entries"]) + str(before["topics"]["notes"]["entries"])
        for mark in [f"<{kind}{n}>" for n in range(60) for kind in ("a", "u")] + [
            f"<r{n}>" for n in range(1, 60, 2)
        ]:
            assert count(verbatim, mark) == 1, mark
        assert count(verbatim, "<t>") == 1
        assert len(covered) >= 4
    async with open_saver() as saver, opened(saver) as context:
        assert await context.snapshot("p") == before
