# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What was once too much for a store or for its user: failing commits, broken connections, odd input, size."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import FrameType
from typing import Any

import psycopg
import pytest
from conftest import OpenSaver
from fakes.chat import Piece, ScriptedModel, says, texts
from fakes.clock import Clock
from fakes.saver import SteeredSaver
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.graph.stores import Saver, thread
from xr_ai_conversation.xr import AgentExchange


class OneFailure(SteeredSaver):
    """A saver that, once told to fail, fails in one commit only."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Any:
        try:
            return await super().aput(config, checkpoint, metadata, new_versions)
        except OSError:
            self.error = None
            raise


def manager(saver: Saver | None = None, model: ScriptedModel | None = None, **options: Any) -> ContextManager:
    options = {"incremental_context_topics": ["notes"], "summary_context_topics": ["camera"], **options}
    return ContextManager(model or ScriptedModel(script=says("S")), checkpointer=saver, **options)


async def fill(context: ContextManager, *numbers: int) -> None:
    for number in numbers:
        await context.record_exchange("p", f"<{number}>", "x" * 700)


async def said(context: ContextManager, participant: str = "p") -> list[str]:
    entries = (await context.snapshot(participant))["dialogue"]["entries"]
    return [entry["request"] for entry in entries if "request" in entry]


async def summary(context: ContextManager) -> str | None:
    found = (await context.snapshot("p"))["dialogue"]["summary"]
    return found["text"] if found else None


def covered(model: ScriptedModel) -> list[int]:
    """Return the numbers of the exchanges that the last request of a model summarised."""
    return [number for number in range(20) if f"<{number}>" in texts(model.requests[-1])[-1]]


@pytest.mark.parametrize("arrival", ["during the request", "during the commit", "after it"])
async def test_when_the_commit_of_a_compaction_fails_it_is_tried_again_after_the_next_entry(
    clock: Clock, arrival: str
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        begun.set()
        await release.wait()
        yield "S"

    saver, model = OneFailure(), ScriptedModel(script=script)
    context = manager(saver, model, clock=clock)
    await fill(context, *range(6))
    await begun.wait()
    if arrival == "during the request":
        await fill(context, 6)
    saver.error = OSError("disk full")
    saver.open.clear()
    saver.reached.clear()
    release.set()
    await saver.reached.wait()
    arriving = asyncio.create_task(fill(context, *([6] if arrival == "during the commit" else [])))
    await asyncio.sleep(0)
    saver.open.set()
    await arriving
    await context.settled("p")
    if arrival == "after it":
        assert len(model.requests) == 1
        assert await summary(context) is None
        assert await said(context) == [f"<{number}>" for number in range(6)]
        await fill(context, 6)
        await context.settled("p")
    assert len(model.requests) == 2
    assert await summary(context) == "S"
    assert covered(model) == list(range(6))
    assert await said(context) == ["<6>"]


async def test_short_processes_keep_the_history_of_a_participant_to_its_depth(open_saver: OpenSaver) -> None:
    async with open_saver() as saver:
        for start in range(30):
            async with open_saver() as restarted, manager(restarted, history=5) as context:
                for number in range(3):
                    await context.update("p", "camera", f"view {start}.{number}")
        kept = [found async for found in saver.alist(thread("p"))]
        assert 5 <= len(kept) <= 5 + 3
        async with manager(saver) as context:
            assert "view 29.2" in (await context.blocks("p"))[0].text


async def test_a_clear_after_close_forgets_and_leaves_nothing_open(open_saver: OpenSaver) -> None:
    async with open_saver() as saver:
        before = asyncio.all_tasks()
        context = manager(saver)
        for participant in ("p", "q"):
            await context.record_exchange(participant, "a", "1")
        await context.close()
        assert asyncio.all_tasks() == before
        for _ in range(2):
            await context.clear("p")
            assert asyncio.all_tasks() == before
        async with manager(saver) as other:
            assert await said(other, "p") == []
            assert await said(other, "q") == ["a"]
        assert asyncio.all_tasks() == before


@asynccontextmanager
async def one_connection(address: str) -> AsyncIterator[tuple[AsyncPostgresSaver, int]]:
    async with AsyncPostgresSaver.from_conn_string(address) as saver:
        assert isinstance(saver.conn, psycopg.AsyncConnection)
        yield saver, saver.conn.info.backend_pid


@asynccontextmanager
async def a_pool(address: str) -> AsyncIterator[tuple[AsyncPostgresSaver, int]]:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        address,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        min_size=1,
        max_size=2,
        check=AsyncConnectionPool.check_connection,
        open=False,
    )
    async with pool:
        yield AsyncPostgresSaver(pool), 0


@pytest.mark.parametrize("opened", [one_connection, a_pool])
async def test_a_connection_that_the_server_has_ended_is_replaced_for_the_next_commit(
    postgres: str, opened: Any
) -> None:
    async with (
        opened(postgres) as (saver, its_own),
        await psycopg.AsyncConnection.connect(postgres, autocommit=True) as administrator,
    ):
        await saver.setup()
        async with manager(saver) as context:
            for number in range(3):
                await context.record_exchange("p", f"<{number}>", "ok")
                await context._participants.finished()
                ended = await administrator.execute(
                    "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid NOT IN (pg_backend_pid(), %s)",
                    (its_own,),
                )
                assert (True,) in await ended.fetchall()
            await context.record_exchange("p", "<3>", "ok")
            assert await said(context) == ["<0>", "<1>", "<2>", "<3>"]


@pytest.mark.parametrize("then", ["commit", "clear", "close"])
async def test_a_clear_while_the_file_is_being_read_waits_for_nobody_and_the_log_is_emptied_after(
    tmp_path: Path, then: str
) -> None:
    path = tmp_path / "context.db"

    def stored() -> bytes:
        return b"".join(found.read_bytes() for found in tmp_path.glob("context.db*"))

    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        context = manager(saver)
        await context.record_exchange("SECRETIVE", "SECRET", "ok")
        await context.record_exchange("other", "a", "1")
        await context._participants.finished()
        await saver.conn.execute_fetchall("PRAGMA busy_timeout = 12000")
        with closing(sqlite3.connect(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM checkpoints").fetchone()
            async with asyncio.timeout(8):
                await context.clear("SECRETIVE")
                assert await context.blocks("SECRETIVE") == ()
                await context.record_exchange("other", "b", "2")
            assert b"SECRET" in stored()
        assert list(await saver.conn.execute_fetchall("PRAGMA busy_timeout")) == [(12000,)]
        if then == "commit":
            await context.record_exchange("other", "c", "3")
        elif then == "clear":
            await context.clear("nobody")
        await (context.close() if then == "close" else context.settled())
        assert b"SECRET" not in stored()
        assert b"other" in stored()
        await context.close()


async def exchange(context: ContextManager, **given: Any) -> None:
    await context.record_exchange(**{"participant_id": "p", "request": "b", "response": "2", **given})


async def note(context: ContextManager, **given: Any) -> None:
    await context.update(**{"participant_id": "p", "topic": "notes", "text": "x", **given})


async def history(context: ContextManager, **given: Any) -> None:
    past: Any = AgentExchange(**{"request": "b", "response": "2", **given})
    await context.reconcile("p", [AgentExchange("new", "ok"), past])


LAST = datetime.max.replace(tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
Call = Callable[[ContextManager], Coroutine[Any, Any, object]]
REFUSED: dict[str, tuple[type[Exception], str, Call]] = {
    "exchange after all days": (ValueError, "^timestamp must", lambda to: exchange(to, timestamp=LAST)),
    "exchange before all days": (ValueError, "^timestamp must", lambda to: exchange(to, timestamp=FIRST)),
    "update after all days": (ValueError, "^timestamp must", lambda to: note(to, timestamp=LAST)),
    "update before all days": (ValueError, "^timestamp must", lambda to: note(to, timestamp=FIRST)),
    "history after all days": (ValueError, "^timestamp_us must", lambda to: history(to, timestamp_us=2**63)),
    "history before them": (ValueError, "^timestamp_us must", lambda to: history(to, timestamp_us=-(2**63))),
    "history on the last day": (
        ValueError,
        "^timestamp_us must",
        lambda to: history(to, timestamp_us=253_402_300_799_999_999),
    ),
    "time that is text": (TypeError, "^timestamp must", lambda to: exchange(to, timestamp="now")),
    "time that is a number": (TypeError, "^timestamp must", lambda to: note(to, timestamp=0)),
    "history's time that is text": (
        TypeError,
        "^timestamp_us must",
        lambda to: history(to, timestamp_us="now"),
    ),
    "request": (TypeError, "^request must be a string, got NoneType", lambda to: exchange(to, request=None)),
    "response": (TypeError, "^response must be a string, got bytes", lambda to: exchange(to, response=b"2")),
    "turn": (TypeError, "^turn_id must be a string, got int", lambda to: exchange(to, turn_id=7)),
    "text": (TypeError, "^text of an update must be a string, got int", lambda to: note(to, text=5)),
    "participant of an exchange": (TypeError, "^participant_id", lambda to: exchange(to, participant_id=5)),
    "participant of an update": (TypeError, "^participant_id", lambda to: note(to, participant_id=None)),
    "participant of nothing": (TypeError, "^participant_id", lambda to: exchange(to, participant_id=b"p")),
}


@pytest.mark.parametrize(("error", "message", "call"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_cannot_be_stored_is_refused_and_changes_nothing(
    clock: Clock, error: type[Exception], message: str, call: Call
) -> None:
    saver = SteeredSaver()
    context = manager(saver, clock=clock)
    await context.record_exchange("p", "a", "1")
    before = await context.snapshot("p")
    saver.reached.clear()
    with pytest.raises(error, match=message):
        await call(context)
    assert not saver.reached.is_set()
    assert await context.snapshot("p") == before
    assert [participant.id for participant in context._participants.all()] == ["p"]


@pytest.mark.parametrize("participant", [None, 5, b"p", ["p"]])
async def test_a_participant_id_that_is_no_string_is_refused_everywhere(
    clock: Clock, participant: Any
) -> None:
    context = manager(clock=clock)
    talk = Conversation(ScriptedModel(), context=context)
    calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: context.blocks(participant),
        lambda: context.snapshot(participant),
        lambda: context.record_exchange(participant, "a", "b"),
        lambda: context.update(participant, "notes", "x"),
        lambda: context.reconcile(participant, []),
        lambda: context.clear(participant),
        lambda: talk.messages(participant, "Hi"),
    ]
    if participant is not None:
        calls.append(lambda: context.settled(participant))
    for call in calls:
        with pytest.raises(TypeError, match=r"^participant_id must be a string, got \w+$"):
            await call()
    assert context._participants.all() == ()


@pytest.mark.parametrize("time", [datetime(1, 1, 2), datetime(9999, 12, 30, tzinfo=UTC)])  # noqa: DTZ001 - the point
async def test_every_other_time_is_taken_and_shown(clock: Clock, time: datetime) -> None:
    context = manager(clock=clock)
    await context.update("p", "notes", "x", timestamp=time)
    assert (await context.blocks("p"))[0].time == (
        time if time.tzinfo else time.replace(tzinfo=clock().tzinfo)
    )


async def steps(work: Coroutine[Any, Any, object]) -> int:
    """Return how many calls some work takes, which unlike its duration is the same on every machine."""
    count = 0

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        await work
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("timed", [True, False], ids=["with times", "without times"])
@pytest.mark.parametrize("turn_ids", [True, False], ids=["with turn ids", "without turn ids"])
async def test_a_window_of_twice_the_length_is_reconciled_in_twice_the_steps(
    clock: Clock, timed: bool, turn_ids: bool
) -> None:
    def window(length: int) -> list[AgentExchange]:
        return [
            AgentExchange(f"<{n}>", "ok", n * 1_000_000 if timed else None, f"t{n}" if turn_ids else None)
            for n in range(length)
        ]

    taken: dict[int, list[int]] = {}
    for length in (1_000, 2_000):
        context = manager(model=ScriptedModel(script=says(ConnectionError("down"))), clock=clock)
        taken[length] = []
        for _ in ("new", "known"):
            taken[length].append(await steps(context.reconcile("p", window(length))))
            await context.settled("p")
        assert await said(context) == [f"<{number}>" for number in range(length)]
    assert all(long < 2.5 * short for short, long in zip(taken[1_000], taken[2_000], strict=True)), taken


@pytest.mark.parametrize(
    "piece",
    ["\n", "x\n", "é", "\u0301", "👩‍👩‍👧‍👦"],
    ids=["line breaks", "short lines", "letters", "marks", "emoji"],
)
async def test_what_is_shown_of_a_huge_entry_takes_no_more_steps_when_it_is_twice_as_huge(
    clock: Clock, piece: str
) -> None:
    taken: dict[int, list[int]] = {}
    for size in (1_000_000, 2_000_000):
        context = manager(model=ScriptedModel(script=says(ConnectionError("down"))), clock=clock)
        text = "a" + piece * (size // len(piece.encode())) + "z"
        await context.record_exchange("p", text, text)
        await context.update("p", "notes", text)
        await context.update("p", "camera", text)
        await context.settled("p")
        taken[size] = [
            await steps(context.blocks("p")),
            await steps(context.update("p", "camera", "another")),
            await steps(context.settled("p")),
        ]
    assert all(long < 1.2 * short for short, long in zip(*taken.values(), strict=True)), taken
