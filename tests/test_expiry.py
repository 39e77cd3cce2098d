# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Participants that have been idle: forgotten if that is wanted, and never kept in memory without a bound."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenSaver
from fakes.chat import ScriptedModel, says
from fakes.clock import Clock
from langgraph.graph import END, START, MessagesState, StateGraph

from xr_ai_conversation import ContextManager, open_saver
from xr_ai_conversation.graph.stores import Saver, thread
from xr_ai_conversation.graph.stores.postgres import PostgresStore

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> Clock:
    """The true time, since the ids of checkpoints are made by the system's clock."""
    return Clock(datetime.now(UTC))


def manager(saver: Saver | None, clock: Clock, **options: Any) -> ContextManager:
    return ContextManager(ScriptedModel(script=says("S")), checkpointer=saver, clock=clock, **options)


async def known(context: ContextManager, participant: str) -> bool:
    return bool(await context.blocks(participant))


async def test_nobody_is_forgotten_by_default(open_saver: OpenSaver, clock: Clock) -> None:
    async with open_saver() as saver, manager(saver, clock) as context:
        await context.record_exchange("p", "Hi", "Hello")
        clock.move(days=4_000)
        assert await context.expire() == 0
        assert await known(context, "p")


@pytest.mark.parametrize("own", [True, False])
async def test_who_was_idle_for_long_finds_nothing(open_saver: OpenSaver, clock: Clock, own: bool) -> None:
    async with open_saver() as saver, manager(None if own else saver, clock, idle_after=HOUR) as context:
        await context.record_exchange("p", "Hi", "Hello")
        clock.move(minutes=59)
        assert await known(context, "p")
        clock.move(minutes=2)
        assert not await known(context, "p")
        clock.now = datetime.now(UTC)
        await context.record_exchange("p", "I am new", "Hello")
        (block,) = await context.blocks("p")
        assert "I am new" in block.text


async def test_what_comes_after_a_long_pause_begins_a_new_context(
    open_saver: OpenSaver, clock: Clock
) -> None:
    async with open_saver() as saver, manager(saver, clock, idle_after=HOUR) as context:
        await context.record_exchange("p", "old", "Hello")
        clock.move(hours=2)
        await context.record_exchange("p", "new", "Hello")
        clock.now = datetime.now(UTC)
        (block,) = await context.blocks("p")
        assert "new" in block.text


async def test_expire_forgets_the_idle_in_the_store_and_nobody_else(
    open_saver: OpenSaver, clock: Clock
) -> None:
    async with open_saver() as saver, manager(saver, clock) as context:
        for number in range(5):
            await context.record_exchange(f"p{number}", "Hi", "Hello")
    async with open_saver() as saver, manager(saver, clock, idle_after=HOUR) as context:
        assert await context.expire() == 0
        clock.move(hours=2)
        assert await context.expire() == 5
        assert await context.expire() == 0
    async with open_saver() as saver, manager(saver, clock) as context:
        assert not any([await known(context, f"p{number}") for number in range(5)])


async def test_others_that_are_served_let_the_idle_be_forgotten(open_saver: OpenSaver, clock: Clock) -> None:
    async with open_saver() as saver:
        async with manager(saver, clock, idle_after=HOUR) as context:
            await context.record_exchange("idle", "Hi", "Hello")
            clock.move(hours=2)
            await context.record_exchange("busy", "Hi", "Hello")
            await context._participants.finished()
        async with manager(saver, clock) as context:
            assert not await known(context, "idle")


async def test_a_thread_of_another_graph_on_the_same_saver_is_left_alone(
    open_saver: OpenSaver, clock: Clock
) -> None:
    async with open_saver() as saver, manager(saver, clock, idle_after=HOUR) as context:
        graph = StateGraph(MessagesState)
        graph.add_node("node", lambda _: {"messages": ["theirs"]})
        graph.add_edge(START, "node")
        graph.add_edge("node", END)
        other = graph.compile(checkpointer=saver)
        thread: Any = {"configurable": {"thread_id": "theirs"}}
        await other.ainvoke({"messages": []}, thread)
        clock.move(hours=2)
        assert await context.expire() == 0
        assert (await other.aget_state(thread)).values["messages"]


@pytest.mark.parametrize("span", [timedelta(), timedelta(seconds=-1)])
def test_a_time_that_is_not_long_is_refused(span: timedelta, clock: Clock) -> None:
    with pytest.raises(ValueError, match="idle_after"):
        manager(None, clock, idle_after=span)


@pytest.mark.parametrize("open_saver", ["memory"], indirect=True)
async def test_of_the_idle_a_bounded_number_is_held_and_all_come_back_from_the_store(
    open_saver: OpenSaver, clock: Clock
) -> None:
    async with open_saver() as saver, manager(saver, clock) as context:
        for number in range(1_200):
            await context.record_exchange(f"p{number}", f"I am {number}", "Hello")
        assert len(context._participants.all()) == 1_000
        for number in (0, 600, 1_199):
            (block,) = await context.blocks(f"p{number}")
            assert f"I am {number}\n" in block.text
        assert len(context._participants.all()) == 1_000


async def test_one_whose_context_cannot_be_read_does_not_keep_the_others_from_being_forgotten(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_saver(tmp_path / "a.db", key=b"k" * 16) as saver, manager(saver, clock) as context:
        await context.record_exchange("a", "Hi", "Hello")
    async with (
        open_saver(tmp_path / "a.db") as saver,
        manager(saver, clock, idle_after=HOUR) as context,
    ):
        for participant in "bc":
            await context.record_exchange(participant, "Hi", "Hello")
        clock.move(hours=2)
        assert await context.expire() == 2
        assert "not expired: participant 'a'" in caplog.text
    async with open_saver(tmp_path / "a.db", key=b"k" * 16) as saver, manager(saver, clock) as context:
        assert await known(context, "a")


async def test_an_expiry_that_is_overtaken_by_close_ends_and_leaves_nothing_open(
    postgres: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetting, release, forget = asyncio.Event(), asyncio.Event(), PostgresStore.forget

    async def held(store: PostgresStore, participant: str, saver: Saver) -> None:
        forgetting.set()
        await release.wait()
        await forget(store, participant, saver)

    monkeypatch.setattr(PostgresStore, "forget", held)
    async with open_saver(postgres) as saver:
        await saver.aget_tuple(thread("a"))
        before = asyncio.all_tasks()
        context = manager(saver, clock, idle_after=HOUR)
        for participant in "abc":
            await context.record_exchange(participant, "Hi", "Hello")
        clock.move(hours=2)
        expiring = asyncio.create_task(context.expire())
        await forgetting.wait()
        closing = asyncio.create_task(context.close())
        await asyncio.sleep(0)
        release.set()
        await closing
        assert await expiring == 1
        assert asyncio.all_tasks() == before
