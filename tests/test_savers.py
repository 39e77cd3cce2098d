# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Savers that are opened by where they are."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fakes.chat import ScriptedModel, says
from fixtures.write import PARTICIPANT
from fixtures.write import manager as fixture_manager
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from recorded import requests
from tenacity import wait_none

from xr_ai_conversation import ContextManager, ContextSchemaError, StoreError, open_saver
from xr_ai_conversation.graph import ledger, savers
from xr_ai_conversation.graph.stores import Saver, store_of, thread
from xr_ai_conversation.graph.stores.filelock import FileLock
from xr_ai_conversation.graph.stores.postgres import PostgresStore
from xr_ai_conversation.state.context import SCHEMA_VERSION
from xr_ai_conversation.xr import AgentExchange

FIXTURES = Path(__file__).parent / "fixtures"
KEY = b"0123456789abcdef"


async def record(where: str | Path, text: str, participant: str = "p", *, key: bytes | None = None) -> None:
    async with (
        open_saver(where, key=key) as saver,
        ContextManager(ScriptedModel(script=says("S")), checkpointer=saver) as context,
    ):
        await context.record_exchange(participant, text, "ok")


async def shown(where: str | Path, participant: str = "p", *, key: bytes | None = None) -> str:
    async with (
        open_saver(where, key=key) as saver,
        ContextManager(ScriptedModel(), checkpointer=saver) as context,
    ):
        return "\n".join(block.text for block in await context.blocks(participant))


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("a.db*"))


async def test_a_place_says_which_saver_it_is(tmp_path: Path, postgres: str) -> None:
    for where, kind in (
        ("memory", InMemorySaver),
        (tmp_path / "a.db", AsyncSqliteSaver),
        (f"sqlite:///{tmp_path / 'a.db'}", AsyncSqliteSaver),
        (postgres, AsyncPostgresSaver),
    ):
        async with open_saver(where) as saver:
            assert type(saver) is kind


async def test_what_was_stored_is_there_when_it_is_opened_again(tmp_path: Path, postgres: str) -> None:
    for where in (tmp_path / "folder" / "a.db", postgres):
        await record(where, "Hello there")
        assert "Hello there" in await shown(where)


async def test_a_new_file_is_made_with_its_folder_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.db"
    await record(path, "Hi")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


async def test_the_log_of_a_file_in_long_use_stays_within_a_megabyte(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with (
        open_saver(path) as saver,
        ContextManager(ScriptedModel(script=says("A summary.")), checkpointer=saver) as context,
    ):
        for number in range(200):
            await context.record_exchange("ann", f"Question {number}?", "An answer of some words. " * 8)
        await context.settled()
        assert 0 < path.with_name("a.db-wal").stat().st_size < 1_000_000


async def test_many_processes_may_set_a_database_up_at_once(postgres: str) -> None:
    await asyncio.gather(*(record(postgres, f"Hi {number}", f"p{number}") for number in range(8)))
    for number in range(8):
        assert f"Hi {number}" in await shown(postgres, f"p{number}")


async def test_with_a_key_nothing_that_was_said_is_stored_in_clear(tmp_path: Path, postgres: str) -> None:
    path = tmp_path / "a.db"
    for where in (path, postgres):
        async with (
            open_saver(where, key=KEY) as saver,
            ContextManager(
                ScriptedModel(script=says("a secret summary")),
                checkpointer=saver,
                incremental_context_topics=["notes"],
                summary_context_topics=["camera"],
            ) as context,
        ):
            for number in range(8):
                await context.record_exchange("ann", f"secret {number}", "secret " * 100)
            await context.update("ann", "notes", "a secret note")
            await context.update("ann", "camera", "a secret state")
            await context.settled()
            assert "secret summary" in (await context.blocks("ann"))[0].text
    assert b"secret" not in bytes_of(tmp_path)
    with psycopg.connect(postgres) as connection:
        tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
        rows = [row for table in tables for row in connection.execute(f"SELECT * FROM {table}")]
    assert rows
    assert "secret" not in repr(rows)
    assert "ann" in repr(rows)


async def test_what_was_stored_without_a_key_can_be_read_with_one_and_not_the_other_way_round(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    await record(path, "in clear")
    await record(path, "encrypted", key=KEY)
    assert "in clear" in await shown(path, key=KEY)
    for key in (None, b"another key 1234"):
        with pytest.raises(ContextSchemaError, match="participant 'p': what is stored cannot be read"):
            await shown(path, key=key)


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 33, "0123456789abcdef"])
async def test_a_key_of_another_length_is_refused(key: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="16, 24, 32"):
        await record(tmp_path / "a.db", "Hi", key=key)
    assert not (tmp_path / "a.db").exists()


@pytest.mark.parametrize("where", ["", ":memory:", "mysql://host/lab", "a\0b", "https://host/lab"])
async def test_a_place_that_cannot_be_is_refused(where: str) -> None:
    with pytest.raises(ValueError, match="where must be"):
        await record(where, "Hi")


async def test_what_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"no database" * 1_000)
    for where, words in (
        (tmp_path, "it is a directory"),
        (junk / "a.db", "a part of its path is no directory"),
        (junk, "the file is no SQLite database"),
        ("postgresql://ann:secret@127.0.0.1:1/lab", "127.0.0.1:1/lab cannot be used: connection failed"),
    ):
        with pytest.raises(StoreError, match=words) as caught:
            await record(where, "Hi")
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)


async def test_several_managers_on_savers_of_their_own_lose_and_double_nothing(
    tmp_path: Path, postgres: str
) -> None:
    for where in (tmp_path / "a.db", postgres):

        async def write(name: str, place: str | Path = where) -> None:
            async with (
                open_saver(place) as saver,
                ContextManager(
                    ScriptedModel(),
                    checkpointer=saver,
                    dialogue_budget_bytes=100_000,
                    compaction_input_budget_bytes=60_000,
                ) as context,
            ):
                for number in range(15):
                    await context.record_exchange("p", f"{name}.{number}", "ok")

        await asyncio.gather(*(write(name) for name in "abcd"))
        async with open_saver(where) as saver:
            context = ContextManager(
                ScriptedModel(),
                checkpointer=saver,
                dialogue_budget_bytes=100_000,
                compaction_input_budget_bytes=60_000,
            )
            said = await requests(context)
            await context.close()
        assert sorted(said) == sorted(f"{name}.{number}" for name in "abcd" for number in range(15))


async def test_a_database_of_each_released_schema_is_read(tmp_path: Path) -> None:
    for version in range(1, SCHEMA_VERSION + 1):
        stored = FIXTURES / f"schema-{version}.db"
        shutil.copy(stored, tmp_path / "copy.db")
        async with open_saver(tmp_path / "copy.db") as saver, fixture_manager(saver) as context:
            shown = [block.text for block in await context.blocks(PARTICIPANT)]
            assert shown == json.loads(stored.with_suffix(".json").read_text())
            assert any("Summary of the earlier" in text for text in shown)
            await context.record_exchange(PARTICIPANT, "Lamp 0?", "It is on. " * 70, turn_id="t0")
            assert [block.text for block in await context.blocks(PARTICIPANT)] == shown
            await context.record_exchange(PARTICIPANT, "Goes on?", "Yes.")
            assert "Goes on?" in "".join(block.text for block in await context.blocks(PARTICIPANT))


async def test_a_commit_whose_lock_was_lost_overwrites_nothing_that_another_process_committed(
    postgres: str,
) -> None:
    async with (
        open_saver(postgres) as first,
        open_saver(postgres) as second,
        ContextManager(ScriptedModel(), checkpointer=first) as one,
        ContextManager(ScriptedModel(), checkpointer=second) as other,
        await psycopg.AsyncConnection.connect(postgres, autocommit=True) as admin,
    ):
        await one.record_exchange("p", "first", "ok")
        await one._participants.finished()
        reached, release, read, calls = asyncio.Event(), asyncio.Event(), first.aget_tuple, 0

        async def held(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            found = await read(*arguments)
            if calls == 2:  # the commit has read what it builds upon
                reached.set()
                await release.wait()
            return found

        first.aget_tuple = held  # type: ignore[method-assign, assignment]
        task = asyncio.create_task(one.record_exchange("p", "of one", "ok"))
        await reached.wait()
        await admin.execute(
            "SELECT pg_terminate_backend(pid, 30000) FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        await other.record_exchange("p", "of the other", "ok")
        release.set()
        await task
        said = await requests(other)
    assert sorted(said) == ["first", "of one", "of the other"]


async def test_a_saver_derived_from_a_known_one_is_treated_as_that(postgres: str) -> None:
    class Traced(AsyncPostgresSaver): ...

    async with open_saver(postgres) as saver:
        assert isinstance(saver, AsyncPostgresSaver)
        assert isinstance(store_of(Traced(saver.conn)), PostgresStore)


async def test_more_commits_at_once_than_there_are_connections_wait_for_their_turn(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xr_ai_conversation.graph.stores.postgres._TIMEOUT_S", 1.0)
    monkeypatch.setattr(PostgresStore, "passing", lambda *_: False)  # none is tried again
    async with (
        open_saver(postgres) as saver,
        ContextManager(ScriptedModel(), checkpointer=saver) as context,
    ):
        await asyncio.gather(*(context.record_exchange(f"p{number}", "Hi", "ok") for number in range(500)))
        assert all([await context.blocks(f"p{number}") for number in range(500)])


async def test_commits_of_several_processes_are_kept_whatever_isolation_is_the_default_of_the_database(
    postgres: str,
) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
    async with (
        open_saver(postgres) as first,
        open_saver(postgres) as second,
        ContextManager(ScriptedModel(script=says("S")), checkpointer=first) as one,
        ContextManager(ScriptedModel(script=says("S")), checkpointer=second) as other,
    ):
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                for context in (one, other):
                    group.create_task(context.record_exchange("p", f"{number}", "ok"))
        assert len(await requests(one)) == 40


@pytest.mark.parametrize("call", ["record", "append", "replace", "reconcile"])
async def test_a_commit_whose_answer_was_lost_is_not_made_again_when_it_was_compacted_meanwhile(
    postgres: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {
        "incremental_context_topics": ["notes"],
        "summary_context_topics": ["camera"],
        "dialogue_budget_bytes": 1_000,
        "compaction_input_budget_bytes": 3_000,
        "topic_budget_bytes": 600,
    }
    monkeypatch.setattr(ledger, "_PAUSES", wait_none())
    lost, compacted, exclusive = asyncio.Event(), asyncio.Event(), PostgresStore.exclusive

    @asynccontextmanager
    async def lossy(store: PostgresStore, participant: str) -> AsyncIterator[Saver]:
        if lost.is_set() and store is one._ledger._store:
            await compacted.wait()
        async with exclusive(store, participant) as saver:
            yield saver
        if not lost.is_set():
            lost.set()
            raise psycopg.OperationalError("the connection is lost")

    async with (
        open_saver(postgres) as first,
        open_saver(postgres) as second,
        ContextManager(ScriptedModel(script=says("S")), checkpointer=first, **options) as one,
        ContextManager(ScriptedModel(script=says("S")), checkpointer=second, **options) as other,
    ):
        monkeypatch.setattr(PostgresStore, "exclusive", lossy)
        calls: dict[str, Callable[[ContextManager, str], Coroutine[Any, Any, None]]] = {
            "record": lambda to, text: to.record_exchange("p", text, "x" * 700),
            "append": lambda to, text: to.update("p", "notes", f"{text} {'x' * 400}"),
            "replace": lambda to, text: to.update("p", "camera", text),
            "reconcile": lambda to, text: to.reconcile("p", [AgentExchange(text, "x" * 700)]),
        }
        calling = asyncio.create_task(calls[call](one, "once"))
        await lost.wait()
        for number in range(3):
            await calls[call](other, f"other {number}")
        await other.settled("p")
        compacted.set()
        await calling
        found = await other.snapshot("p")
        if call == "replace":
            assert found["states"]["camera"]["text"] == "other 2"
            return
        section = found["topics"]["notes"] if call == "append" else found["dialogue"]
        assert section["summary"]
        assert section["summary"]["covers"] + len(section["entries"]) == 4
        assert "once" not in str(section["entries"])


def test_the_end_of_an_event_loop_gives_up_a_file_lock_that_was_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db-lock")
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    lock = FileLock(path)
    holder.execute("BEGIN IMMEDIATE")

    async def leave_waiting() -> None:
        waiting = asyncio.create_task(lock.__aenter__())
        await asyncio.sleep(0)
        assert lock._turn.locked()
        threading.Timer(0.3, holder.execute, ["ROLLBACK"]).start()
        assert not waiting.done()

    asyncio.run(leave_waiting())
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for connection in (other, holder):
        connection.close()
    lock.close()


@pytest.mark.parametrize("held", [True, False])
async def test_a_file_that_is_set_up_or_held_by_others_is_tried_again_for_a_bounded_time(
    tmp_path: Path, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, calls = AsyncSqliteSaver.setup, 0

    async def disturbed(saver: AsyncSqliteSaver) -> None:
        nonlocal calls
        calls += 1
        if held or calls <= 2:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        await setup(saver)

    monkeypatch.setattr(AsyncSqliteSaver, "setup", disturbed)
    if held:
        monkeypatch.setattr(savers, "_PATIENCE_S", 0)
        with pytest.raises(StoreError, match="another program has locked it"):
            async with open_saver(tmp_path / "a.db"):
                pass
        assert calls == 1
        return
    async with open_saver(tmp_path / "a.db") as saver:
        assert calls == 3
        assert await saver.aget_tuple(thread("p")) is None
