# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a store keeps, for how long, and what it keeps no more."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from conftest import OpenSaver
from fakes.chat import ScriptedModel, says
from fakes.clock import Clock
from fakes.summariser import Summariser
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg_pool import AsyncConnectionPool
from recorded import requests

from xr_ai_conversation import ContextManager, ContextSchemaError, Conversation
from xr_ai_conversation.graph.stores import Saver, store_of, thread
from xr_ai_conversation.xr import AgentExchange

TESTS = Path(__file__).parent
ROOMY: dict[str, Any] = {"dialogue_budget_bytes": 100_000, "compaction_input_budget_bytes": 60_000}


def manager(saver: Saver | None, model: ScriptedModel | None = None, **options: Any) -> ContextManager:
    options = {"incremental_context_topics": ["notes"], "summary_context_topics": ["camera"], **options}
    return ContextManager(model or ScriptedModel(script=says("S")), checkpointer=saver, **options)


async def live(context: ContextManager, count: int = 12, participant: str = "p") -> None:
    for number in range(count):
        await context.record_exchange(participant, f"ask <{number}>", "x" * 700, turn_id=f"t{number}")
        await context.update(participant, "notes", f"note <{number}>")
        await context.update(participant, "camera", f"view <{number}>")


async def test_after_a_restart_the_context_is_the_same_to_the_byte(
    open_saver: OpenSaver, clock: Clock
) -> None:
    async with open_saver() as saver, manager(saver, clock=clock) as context:
        await live(context)
        await context.settled()
        state = json.dumps(await context.snapshot("p"))
        prompt = await Conversation(ScriptedModel(), context=context).messages("p", "Hi")
    async with open_saver() as saver, manager(saver, clock=clock) as context:
        assert json.dumps(await context.snapshot("p")) == state
        assert await Conversation(ScriptedModel(), context=context).messages("p", "Hi") == prompt


@pytest.mark.parametrize("turn_ids", [True, False])
async def test_a_history_window_after_a_restart_adds_nothing_that_was_compacted(
    open_saver: OpenSaver, turn_ids: bool
) -> None:
    history = [
        AgentExchange(f"ask <{n}>", "x" * 700, turn_id=f"t{n}" if turn_ids else None) for n in range(30)
    ]
    async with open_saver() as saver, manager(saver) as context:
        for past in history:
            await context.record_exchange("p", past.request, past.response or "", turn_id=past.turn_id)
        await context.settled()
        before = await context.snapshot("p")
        assert before["dialogue"]["summary"] is not None
    model = ScriptedModel()
    async with open_saver() as saver, manager(saver, model) as context:
        await context.reconcile("p", history[-20:])
        await context.settled("p")
        assert await context.snapshot("p") == before
    assert model.requests == []


@pytest.mark.parametrize("touch", ["blocks", "update", "settled"])
async def test_compaction_that_was_due_is_due_again_at_the_first_touch(
    open_saver: OpenSaver, touch: str
) -> None:
    async with open_saver() as saver, manager(saver, ScriptedModel(script=says(""))) as context:
        await live(context)
        await context.settled()
    async with open_saver() as saver, manager(saver) as context:
        if touch == "blocks":
            await context.blocks("p")
        elif touch == "update":
            await context.update("p", "camera", "anything")
        await context.settled("p" if touch == "settled" else None)
        assert (await context.snapshot("p"))["dialogue"]["summary"] is not None


async def test_history_is_kept_to_its_depth_and_the_store_stays_bounded(open_saver: OpenSaver) -> None:
    async with open_saver() as saver, manager(saver, history=5) as context:
        for _ in range(7):
            await live(context, 10)
            await context.settled()
        await context._participants.finished()
        kept = [found async for found in saver.alist(thread("p"))]
        assert 5 <= len(kept) <= 5 + 10
        assert kept[0].checkpoint["channel_values"]["context"] == await context.snapshot("p")
        assert all(found.checkpoint["channel_values"]["context"]["schema_version"] == 2 for found in kept)
        await store_of(saver).prune("p", 1)
        assert len([found async for found in saver.alist(thread("p"))]) == 1
        if isinstance(saver, InMemorySaver):
            assert len(saver.blobs) <= 3
            assert len(saver.writes) <= 1
        await context.update("p", "notes", "goes on")
        assert "goes on" in (await context.blocks("p"))[-1].text


async def test_with_a_history_of_one_nothing_that_was_compacted_is_left(open_saver: OpenSaver) -> None:
    async with open_saver() as saver, manager(saver, history=1) as context:
        await live(context, 12)
        await context.settled()
        await context._participants.finished()
        assert len([found async for found in saver.alist(thread("p"))]) == 1
        assert "ask <0>" not in str([found async for found in saver.alist(thread("p"))])


async def test_after_clear_no_byte_of_the_participant_is_left(open_saver: OpenSaver, tmp_path: Path) -> None:
    async with open_saver() as saver, manager(saver, history=3) as context:
        for participant in ("SECRETIVE", "other"):
            await live(context, 12, participant)
            await context.update(participant, "notes", f"{participant} WORDS")
        await context.settled()
        await context.clear("SECRETIVE")
        await context.clear("SECRETIVE")
        assert await context.blocks("SECRETIVE") == ()
        assert "other WORDS" in str(await context.blocks("other"))
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("context.db*"))  # noqa: ASYNC240
        if isinstance(saver, InMemorySaver):
            stored = repr((saver.storage, saver.writes, saver.blobs)).encode()
        if isinstance(saver, AsyncPostgresSaver):
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                async with saver._cursor() as cursor:
                    await cursor.execute(f"SELECT t::text FROM {table} t")
                    stored += repr(await cursor.fetchall()).encode()
        assert b"SECRETIVE" not in stored
        assert b"other" in stored
        assert [found async for found in saver.alist(thread("SECRETIVE"))] == []
        await context.record_exchange("SECRETIVE", "again", "ok")
        assert len(await context.blocks("SECRETIVE")) == 1


async def test_what_was_compacted_can_be_inspected_as_far_back_as_history_goes(open_saver: OpenSaver) -> None:
    async with open_saver() as saver, manager(saver) as context:
        await live(context, 7)
        await context.settled()
        assert "ask <0>" not in str(await context.snapshot("p"))
        history = [found.checkpoint["channel_values"]["context"] async for found in saver.alist(thread("p"))]
        assert any("ask <0>" in str(found) for found in history)


async def test_a_saver_may_be_a_pool_of_connections(postgres: str) -> None:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        postgres, kwargs={"autocommit": True, "prepare_threshold": 0}, min_size=1, max_size=2, open=False
    )
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        async with manager(saver) as context, asyncio.TaskGroup() as group:
            for number in range(30):
                group.create_task(context.record_exchange(f"p{number % 6}", f"<{number}>", "ok"))
        async with manager(saver) as context:
            found = [await context.snapshot(f"p{number}") for number in range(6)]
        assert sum(len(one["dialogue"]["entries"]) for one in found) == 30


async def test_processes_that_share_a_database_lose_and_double_nothing(postgres: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres) as saver:
        await saver.setup()
        writers = [
            await asyncio.create_subprocess_exec(
                sys.executable, str(TESTS / "processes.py"), "postgres", postgres, name, cwd=TESTS
            )
            for name in ("one", "two", "three")
        ]
        assert [await writer.wait() for writer in writers] == [0, 0, 0]
        async with manager(saver) as context:
            said = await requests(context)
            await context.close()
    assert sorted(said) == sorted(f"{name} {n}" for name in ("one", "two", "three") for n in range(40))


async def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = str(tmp_path / "context.db")
    acknowledged: list[str] = []
    for _ in range(2):
        writer = await asyncio.create_subprocess_exec(
            sys.executable,
            str(TESTS / "processes.py"),
            "sqlite",
            path,
            cwd=TESTS,
            stdout=asyncio.subprocess.PIPE,
        )
        assert writer.stdout is not None
        async for line in writer.stdout:
            acknowledged.append(line.decode().strip())
            if len(acknowledged) % 23 == 0 and writer.returncode is None:
                writer.kill()
        await writer.wait()
        async with AsyncSqliteSaver.from_conn_string(path) as saver, manager(saver, **ROOMY) as context:
            said = await requests(context)
            assert set(acknowledged) <= set(said)
            assert len(said) == len(set(said))
            await context.record_exchange("p", "goes on", "ok", turn_id="the same")


async def test_a_host_whose_clock_is_behind_loses_nothing(
    open_saver: OpenSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_saver() as saver:
        now, last = checkpoint_ids.uuid6(), checkpoint_ids._last_v6_timestamp
        assert last is not None
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", last + 36_000_000_000)
        assert checkpoint_ids.uuid6() > now
        async with manager(saver) as context:
            await context.record_exchange("p", "an hour ahead", "ok")
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)
        async with manager(saver) as context:
            await context.record_exchange("p", "behind", "ok")
            await context.record_exchange("p", "still behind", "ok")
            said = await requests(context)
    assert said == [
        "an hour ahead",
        "behind",
        "still behind",
    ]


async def put(saver: Saver, context: object) -> None:
    """Store any value as the context of participant p."""
    graph = manager(saver)._ledger._durable
    checkpoint = await graph.aget_state(thread("p"))
    assert not checkpoint.values
    async with manager(saver) as other:
        await other.record_exchange("p", "a", "1")
    found = await saver.aget_tuple(thread("p"))
    assert found is not None
    found.checkpoint["channel_values"]["context"] = context
    found.checkpoint["id"] = str(checkpoint_ids.uuid6())
    versions = found.checkpoint["channel_versions"]
    found.checkpoint["channel_versions"] = {
        **versions,
        "context": saver.get_next_version(versions["context"], None),
    }
    await saver.aput(
        found.config,
        found.checkpoint,
        found.metadata,
        {"context": found.checkpoint["channel_versions"]["context"]},
    )


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"schema_version": 3, "new": True}, "schema_version 3, this software reads up to 2"),
        (
            {"schema_version": 2, "dialogue": {"summary": None, "entries": [{"id": "SECRET"}]}},
            "damaged at dialogue",
        ),
        ("SECRET", "must have a schema_version"),
    ],
    ids=["newer", "damaged", "no context"],
)
async def test_a_context_that_cannot_be_read_is_an_error_with_the_id_and_is_left_as_it_is(
    open_saver: OpenSaver, stored: object, message: str
) -> None:
    async with open_saver() as saver:
        await put(saver, stored)
        async with manager(saver) as context:
            for call in (
                context.blocks("p"),
                context.record_exchange("p", "a", "b"),
                context.update("p", "notes", "x"),
                context.settled("p"),
            ):
                with pytest.raises(ContextSchemaError, match=message) as error:
                    await call
                assert "participant 'p'" in str(error.value)
                assert "SECRET" not in str(error.value)
            found = await saver.aget_tuple(thread("p"))
            assert found is not None
            assert found.checkpoint["channel_values"]["context"] == stored
            await context.clear("p")
            await context.record_exchange("p", "a", "b")


async def test_a_clear_that_fails_midway_changes_nothing_and_the_next_write_works(tmp_path: Path) -> None:
    async with (
        AsyncSqliteSaver.from_conn_string(str(tmp_path / "context.db")) as saver,
        manager(saver) as context,
    ):
        await context.record_exchange("p", "a", "1")
        await saver.conn.execute(
            "CREATE TRIGGER refuse BEFORE DELETE ON checkpoints BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        with pytest.raises(aiosqlite.IntegrityError, match="refused"):
            await context.clear("p")
        await context.record_exchange("p", "b", "2")
        assert len(await context.blocks("p")) == 2
        await saver.conn.execute("DROP TRIGGER refuse")
        await context.clear("p")
        assert await context.blocks("p") == ()


async def test_pruning_that_fails_disturbs_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with (
        AsyncSqliteSaver.from_conn_string(str(tmp_path / "context.db")) as saver,
        manager(saver, history=1) as context,
    ):
        await saver.setup()
        await saver.conn.execute(
            "CREATE TRIGGER refuse BEFORE DELETE ON checkpoints BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        caplog.set_level(logging.WARNING)
        await live(context, 5)
        await context._participants.finished()
        assert "old checkpoints were not pruned (IntegrityError)" in caplog.text


def test_only_plain_values_are_stored_also_with_strict_serialisation(tmp_path: Path) -> None:
    script = f"""
import asyncio, json
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from fakes.chat import ScriptedModel
from xr_ai_conversation import ContextManager
async def main():
    async with AsyncSqliteSaver.from_conn_string({str(tmp_path / "c.db")!r}) as saver:
        async with ContextManager(ScriptedModel(), checkpointer=saver) as context:
            await context.record_exchange("p", "a", "1")
            found = await saver.aget_tuple({{"configurable": {{"thread_id": "p"}}}})
            print(json.dumps(found.checkpoint["channel_values"]["context"]["dialogue"]["entries"][0]["request"]))
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ('"a"\n', 0), done.stderr


async def test_two_managers_on_one_store_see_what_the_other_commits(open_saver: OpenSaver) -> None:
    async with open_saver() as saver, manager(saver) as one, manager(saver) as other:
        await one.record_exchange("p", "a", "1")
        await other.record_exchange("p", "b", "2")
        assert len(await one.blocks("p")) == 2
        await other.clear("p")
        assert await one.blocks("p") == ()
        await one.record_exchange("p", "c", "3")
        assert len(await other.blocks("p")) == 1


@pytest.mark.parametrize("open_saver", ["memory", "sqlite"], indirect=True)
async def test_a_summary_of_a_slower_manager_is_dropped_if_its_entries_are_gone(
    open_saver: OpenSaver,
) -> None:
    slow = Summariser("slow")
    async with (
        open_saver() as saver,
        manager(saver, slow.model) as one,
        manager(saver, ScriptedModel(script=says("quick"))) as other,
    ):
        await live(one, 7)
        await slow.begun.wait()
        await other.settled("p")
        slow.release.set()
        await one.settled()
        summary = (await one.snapshot("p"))["dialogue"]["summary"]
        assert summary is not None
        assert summary["text"] == "quick"


@pytest.mark.parametrize("open_saver", ["postgres"], indirect=True)
async def test_on_postgres_one_manager_compacts_a_section_and_the_others_see_it(
    open_saver: OpenSaver,
) -> None:
    slow = Summariser("slow")
    async with (
        open_saver() as first,
        open_saver() as second,
        manager(first, slow.model) as one,
        manager(second, slow.model) as other,
    ):
        await live(one, 7)
        await slow.begun.wait()
        waiting = asyncio.create_task(other.settled("p"))
        await other.update("p", "notes", "nobody waits for it")
        assert not waiting.done()
        slow.release.set()
        await one.settled()
        await waiting
        assert len(slow.model.requests) == 1
        summary = (await other.snapshot("p"))["dialogue"]["summary"]
        assert summary is not None
        assert summary["text"] == "slow"


async def test_the_clock_may_go_back_and_forth(open_saver: OpenSaver, clock: Clock) -> None:
    async with open_saver() as saver, manager(saver, clock=clock) as context:
        await context.record_exchange("p", "second", "ok")
        clock.now -= timedelta(days=1)
        await context.record_exchange("p", "first", "ok")
        assert [block.text.count("first") for block in await context.blocks("p")] == [1, 0]
