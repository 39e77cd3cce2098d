# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Exchanges of long ago are known by identities that are stored once, and not again with every commit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenSaver
from fakes.chat import ScriptedModel, says
from fakes.saver import PlainSaver, SteeredSaver
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from processes import known
from psycopg import sql
from recorded import requests

from xr_ai_conversation import ContextManager, ContextSchemaError, Conversation, open_saver
from xr_ai_conversation.graph.ledger import _NOT_ARCHIVED
from xr_ai_conversation.graph.stores import Head, Saver, store_of, thread
from xr_ai_conversation.xr import AgentExchange

LONG = 3 * _NOT_ARCHIVED
TEXT = "x" * 100


def manager(saver: Saver | None, **options: Any) -> ContextManager:
    return ContextManager(ScriptedModel(script=says("S")), checkpointer=saver, **options)


def said(start: int, end: int, *, turns: bool = False) -> list[AgentExchange]:
    return [
        AgentExchange(f"<{number}>", TEXT, turn_id=f"t{number}" if turns else None)
        for number in range(start, end)
    ]


async def tell(context: ContextManager, start: int, end: int, *, turns: bool = False) -> None:
    """Give participant p a past, in windows of history."""
    for first in range(start, end, 100):
        await context.reconcile("p", said(first, min(first + 100, end), turns=turns))
        await context.settled()


async def count(context: ContextManager) -> int:
    """Return how many exchanges of participant p are known."""
    return known(await context.snapshot("p"))


async def test_the_identities_in_a_context_stay_few_however_many_exchanges_there_were(
    open_saver: OpenSaver,
) -> None:
    async with open_saver() as saver, manager(saver) as context:
        for end in range(100, 2_001, 100):
            await tell(context, end - 100, end)
            assert len((await context.snapshot("p"))["identities"]) < (_NOT_ARCHIVED + 100) * 16
            assert await count(context) == end


async def test_an_archive_is_stored_once_and_the_store_holds_it_no_more_than_twice(
    open_saver: OpenSaver,
) -> None:
    async with open_saver() as saver, manager(saver, history=3) as context:
        await tell(context, 0, 5_000)
        for _ in range(11):  # until the thread is pruned
            await context.record_exchange("p", "more", "ok")
        await context._participants.finished()
        kept = [found async for found in saver.alist(thread("p", "archive"))]
        assert len(kept) == 1
        assert len([found async for found in saver.alist(thread("p"))]) <= 3 + 10


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("turns", [False, True])
async def test_an_old_window_is_known_though_its_identities_are_archived(
    open_saver: OpenSaver, restarted: bool, turns: bool
) -> None:
    async with open_saver() as saver, manager(saver) as context:
        await tell(context, 0, LONG, turns=turns)
        await context.settled()
        before = await context.snapshot("p")
        if restarted:
            context = manager(saver)
        for window in (
            said(0, 20, turns=turns),
            said(250, 262, turns=turns),
            said(LONG - 300, LONG, turns=turns),
        ):
            await context.reconcile("p", window)
            assert await context.snapshot("p") == before
        if turns:
            await context.record_exchange("p", "<3>", TEXT, turn_id="t3")
            assert await context.snapshot("p") == before
        await context.reconcile("p", said(LONG - 2, LONG + 1, turns=turns))
        assert (await requests(context))[-1] == f"<{LONG}>"
        assert await count(context) == LONG + 1
        await context.close()


async def test_the_prompt_of_an_answer_shows_no_exchange_of_an_archived_window_again(
    open_saver: OpenSaver,
) -> None:
    async with open_saver() as saver, manager(saver) as context:
        await tell(context, 0, LONG)
    async with open_saver() as saver, manager(saver) as context:
        seen, commit = await context.with_history("p", said(100, 110))
        assert commit is None
        assert "<105>" not in str(seen)
        messages = await Conversation(ScriptedModel(), context=context).messages("p", "Hi")
        assert "<105>" not in str(messages)


async def test_a_participant_in_memory_without_a_saver_has_an_archive_too() -> None:
    async with manager(None) as context:
        await tell(context, 0, LONG)
        before = await context.snapshot("p")
        assert before["archived"]
        await context.reconcile("p", said(0, 20))
        assert await context.snapshot("p") == before
        await context.clear("p")
        assert await count(context) == 0
        await context.reconcile("p", said(0, 20))
        assert await count(context) == 20


async def test_after_clear_the_archive_is_gone_and_what_was_known_is_new_again(open_saver: OpenSaver) -> None:
    async with open_saver() as saver, manager(saver) as context, manager(saver) as other:
        await tell(context, 0, LONG)
        await other.reconcile("p", said(0, 20))
        await context.clear("p")
        assert [found async for found in saver.alist(thread("p", "archive"))] == []
        if isinstance(saver, AsyncPostgresSaver):
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                async with saver._cursor() as cursor:
                    await cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
                    assert await cursor.fetchall() == []
        await tell(context, 0, LONG)  # as many as before: the other must not take its archive for this one
        await other.reconcile("p", said(LONG - 10, LONG + 10))
        assert await count(other) == LONG + 10
        await other.reconcile("p", said(3, 20))
        assert await count(other) == LONG + 10


async def test_an_archive_whose_commit_failed_is_not_taken_for_what_is_known(open_saver: OpenSaver) -> None:
    async with open_saver() as saver, manager(saver) as context:
        for turn in range(2):
            start = turn * (_NOT_ARCHIVED + 1)
            await context.reconcile("p", said(start, start + _NOT_ARCHIVED))
            put = type(saver).aput

            async def refused(self: Saver, config: Any, *rest: Any, put: Any = put) -> Any:
                if config["configurable"]["checkpoint_ns"] == "":
                    raise ZeroDivisionError
                return await put(self, config, *rest)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(saver), "aput", refused)
                with pytest.raises(ZeroDivisionError):
                    await context.reconcile("p", said(start, start + _NOT_ARCHIVED + 1))
            assert await count(context) == start + _NOT_ARCHIVED
            async with manager(saver) as other:
                for each in (context, other):
                    await each.reconcile("p", said(start, start + _NOT_ARCHIVED + 1))
                    assert await count(each) == start + _NOT_ARCHIVED + 1
            assert (await context.snapshot("p"))["archived"]


async def test_an_archive_of_a_host_whose_clock_is_ahead_does_not_hide_the_next_one(
    open_saver: OpenSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_saver() as saver, manager(saver) as context:
        await context.reconcile("p", said(0, _NOT_ARCHIVED))
        last = checkpoint_ids._last_v6_timestamp
        assert last is not None
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", last + 36_000_000_000)
        await store_of(saver).put_archive(
            "p", {"id": "left", "identities": "A" * 16}, Head(None, None), saver
        )
        monkeypatch.setattr(checkpoint_ids, "_last_v6_timestamp", None)
        await context.reconcile("p", said(0, _NOT_ARCHIVED + 1))
        async with manager(saver) as other:
            await other.reconcile("p", said(3, 20))
            assert await count(other) == _NOT_ARCHIVED + 1


async def test_an_archive_that_is_lost_is_an_error_with_the_id_and_changes_nothing(
    open_saver: OpenSaver,
) -> None:
    async with open_saver() as saver, manager(saver) as writer:
        await tell(writer, 0, LONG)
        before = await writer.snapshot("p")
        for damaged in ("SECRET", {"id": "another", "identities": ""}, {"id": "SECRET", "identities": "A"}):
            await store_of(saver).put_archive("p", damaged, Head(None, None), saver)  # type: ignore[arg-type]
            async with manager(saver) as context:
                assert await context.blocks("p")
                for call in (
                    context.reconcile("p", said(0, 20)),
                    context.record_exchange("p", "a", "b"),
                ):
                    with pytest.raises(ContextSchemaError, match="participant 'p': the stored") as caught:
                        await call
                    assert "SECRET" not in str(caught.value)
                assert await context.snapshot("p") == before
        async with manager(saver) as context:
            await context.clear("p")
            await context.record_exchange("p", "a", "b")
            assert await count(context) == 1


async def test_an_archive_that_cannot_be_read_is_said_once_with_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with open_saver(path) as saver, manager(saver) as context:
        await tell(context, 0, LONG)
    async with open_saver(path, key=b"k" * 16) as saver:
        await store_of(saver).put_archive("p", {"id": "a", "identities": ""}, Head(None, None), saver)
    async with open_saver(path) as saver, manager(saver) as context:
        with pytest.raises(ContextSchemaError, match="open the store with the key") as caught:
            await context.reconcile("p", said(0, 20))
        assert str(caught.value).count("participant 'p'") == 1


async def test_a_clear_while_an_archive_is_read_is_no_error() -> None:
    saver = SteeredSaver()
    async with manager(saver) as context, manager(saver) as other:
        await tell(other, 0, LONG)
        read, reached, release = saver.aget_tuple, asyncio.Event(), asyncio.Event()

        async def held(config: Any) -> Any:
            if config["configurable"]["checkpoint_ns"] == "archive" and not reached.is_set():
                reached.set()
                await release.wait()
            return await read(config)

        saver.aget_tuple = held  # type: ignore[method-assign]
        window = asyncio.create_task(context.with_history("p", said(0, 20)))
        await reached.wait()
        await other.clear("p")
        release.set()
        seen, commit = await window
        assert [entry["request"] for entry in seen.context["dialogue"]["entries"] if "request" in entry] == [
            f"<{number}>" for number in range(20)
        ]
        assert commit is not None
        await commit
        assert await count(context) == 20


async def test_an_archive_is_encrypted_where_a_key_is_given(tmp_path: Path, postgres: str) -> None:
    for where in (str(tmp_path / "a.db"), postgres):
        async with open_saver(where, key=b"k" * 16) as saver, manager(saver) as context:
            await tell(context, 0, LONG)
            await context.reconcile("p", said(0, 20))
            assert await count(context) == LONG
        async with open_saver(where) as saver:
            with pytest.raises((ValueError, NotImplementedError)):
                await saver.aget_tuple(thread("p", "archive"))


async def test_a_saver_of_any_other_kind_keeps_an_archive_too() -> None:
    saver = PlainSaver()
    async with manager(saver) as context:
        await tell(context, 0, LONG)
        await context.record_exchange("p", "more", "ok")
    async with manager(saver) as context:
        await context.reconcile("p", said(3, 20))
        assert await count(context) == LONG + 1
        await context.clear("p")
        assert await count(context) == 0


async def test_checkpoints_of_another_namespace_of_a_thread_are_left_alone(open_saver: OpenSaver) -> None:
    async with open_saver() as saver, manager(saver, history=1) as context:
        await context.record_exchange("p", "a", "1")
        place: Any = {"configurable": {"thread_id": "p", "checkpoint_ns": "of another graph"}}
        for _ in range(3):
            await saver.aput(place, empty_checkpoint(), {"source": "loop", "step": 0, "parents": {}}, {})
        await store_of(saver).prune("p", 1)
        assert len([found async for found in saver.alist(place)]) == 3


@pytest.mark.parametrize("open_saver", ["sqlite", "postgres"], indirect=True)
async def test_processes_that_share_a_participant_archive_without_losing_an_exchange(
    open_saver: OpenSaver,
) -> None:
    async with open_saver() as one, open_saver() as two:
        contexts = [manager(one), manager(two)]
        for number in range(0, 1_200, 40):
            await contexts[number // 40 % 2].reconcile("p", said(max(0, number - 10), number + 40))
        for context in contexts:
            assert await count(context) == 1_200
            await context.reconcile("p", said(0, 30))
            assert await count(context) == 1_200
            await context.settled()
            await context.close()
