# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Savers that are opened by where they are."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import stat
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

from xr_ai_conversation import ContextManager, ContextSchemaError, StoreError, open_saver
from xr_ai_conversation.graph.stores import store_of
from xr_ai_conversation.graph.stores.postgres import PostgresStore
from xr_ai_conversation.state.context import SCHEMA_VERSION

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
    monkeypatch.setattr("xr_ai_conversation.graph.stores.postgres._TIMEOUT_S", 0.1)
    monkeypatch.setattr(PostgresStore, "passing", lambda *_: False)  # none is tried again
    async with (
        open_saver(postgres) as saver,
        ContextManager(ScriptedModel(), checkpointer=saver) as context,
    ):
        await asyncio.gather(*(context.record_exchange(f"p{number}", "Hi", "ok") for number in range(100)))
        assert all([await context.blocks(f"p{number}") for number in range(100)])
