# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests run in other processes: writers that share a store, and some that are killed.

    processes.py KIND ARGUMENT...

`serve` reads a line of JSON for each batch of processes, such as [["live", "context.db", "1", "prompt", 0]]. It forks
all of them, and prints when each is started and has exited; so none takes the second that the imports take.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from itertools import count, pairwise
from typing import Any

from fakes.chat import ScriptedModel, replies, texts
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from xr_ai_conversation import ContextManager, open_saver
from xr_ai_conversation.graph import ledger
from xr_ai_conversation.graph.stores import Saver, store_of
from xr_ai_conversation.graph.stores.filelock import FileLock
from xr_ai_conversation.state.context import ParticipantContext, Section, load
from xr_ai_conversation.state.identity import LENGTH

PARTICIPANTS = ("p0", "p1", "p2")
LONGEST_S = 60
"""After so long a process that was forked is ended, lest a test wait for it for ever."""

_TOKEN = re.compile(r"<(\w+):(\d+)>")
_RANGE = re.compile(r"\[(\w+):(\d+)-(\d+)\]")


def tokens(text: str) -> list[tuple[str, int]]:
    """Return all tokens of a text: those it has, as <name:1>, and those that a summary tells of, as [name:0-2]."""
    told = [(name, n) for name, a, b in _RANGE.findall(text) for n in range(int(a), int(b) + 1)]
    return told + [(name, int(number)) for name, number in _TOKEN.findall(text)]


def ranges(found: Iterable[tuple[str, int]]) -> str:
    """Return tokens as a summary tells of them."""
    known = sorted(set(found))
    breaks = [n for n, (a, b) in enumerate(pairwise(known), 1) if b != (a[0], a[1] + 1)]
    bounds = [0, *breaks, len(known)] if known else []
    runs = [known[start:end] for start, end in pairwise(bounds)]
    return " ".join(f"[{run[0][0]}:{run[0][1]}-{run[-1][1]}]" for run in runs)


def told(found: Section) -> Counter[tuple[str, int]]:
    """Return how often a section has each token, each of them accounted for by what the section counts."""
    summary, entries = found["summary"], found["entries"]
    listed = tokens(summary["text"]) if summary else []
    assert len(listed) == (summary["covers"] if summary else 0)
    assert all(len(tokens(str(entry))) == 1 for entry in entries)
    return Counter(listed + [token for entry in entries for token in tokens(str(entry))])


async def stored(saver: Saver, participant: str) -> ParticipantContext:
    """Return what a store has of a participant, without touching it with any manager."""
    return load((await store_of(saver).head(participant)).value)


def known(context: ParticipantContext) -> int:
    """Return how many exchanges have an identity, in a context or in its archive."""
    archived = context["archived"]
    return (archived["count"] if archived else 0) + len(context["identities"]) // LENGTH


def summaries(*, silent: bool = False) -> ScriptedModel:
    """Return a model that keeps every token of what it summarises, or one that never answers."""

    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    def summary(messages: list[BaseMessage]) -> str | Awaitable[str]:
        return never() if silent else ranges(tokens(texts(messages)[-1]))

    return ScriptedModel(script=replies(summary))


def manager(saver: Saver, model: ScriptedModel | None = None, **options: Any) -> ContextManager:
    """Return a manager that compacts after a few entries, and prunes often."""
    return ContextManager(
        model or summaries(),
        checkpointer=saver,
        incremental_context_topics=["notes"],
        summary_context_topics=["camera"],
        dialogue_budget_bytes=2_000,
        topic_budget_bytes=2_000,
        history=5,
        **options,
    )


def say(*words: object) -> None:
    """Print a line at once, and whole even if the process is killed."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


async def live(where: str, name: str, model: str, limit: int) -> None:
    """Serve several participants at once, up to a number of writes of each kind, and print each that is durable.

    Args:
        where: The store, as `open_saver` takes it.
        name: Of this process, in all that it writes.
        model: "prompt" or "silent".
        limit: How many writes; 0 is no end, and one more participant, who is cleared again and again.
    """
    ledger._NOT_ARCHIVED = 4
    async with open_saver(where) as saver, manager(saver, summaries(silent=model == "silent")) as context:

        async def write(participant: str, kind: str) -> None:
            for number in range(limit) if limit else count():
                token = f"<{name}:{number}>"
                if kind == "dialogue":
                    await context.record_exchange(participant, token, "x" * 150)
                else:
                    await context.update(participant, kind, f"{token} {'x' * 100}")
                say(participant, kind, name, number)

        async def come_and_go() -> None:
            for number in count():
                await context.record_exchange("gone", f"<{name}:{number}>", "ok")
                say("gone", "dialogue", name, number)
                if number % 3 == 2:
                    say("gone", "clearing", name, number)
                    await context.clear("gone")
                    say("gone", "cleared", name, number)

        async with asyncio.TaskGroup() as group:
            for participant in PARTICIPANTS:
                for kind in ("dialogue", "notes", "camera"):
                    group.create_task(write(participant, kind))
            if not limit:
                group.create_task(come_and_go())
        await context.settled()


async def hold(path: str) -> None:
    """Hold the lock of a SQLite file for ever."""
    async with FileLock(f"{path}-lock"):
        say("held")
        await asyncio.Event().wait()


async def fill(path: str, limit: int) -> None:
    """Record in a file that may not grow beyond a size until that fails, read, and go on when there is room."""
    async with open_saver(path) as saver, manager(saver, summaries(silent=True)) as context:
        number = 0
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
        try:
            for number in count():
                await context.record_exchange("p", f"<full:{number}>", "x" * 2_000)
                say("recorded", number)
        except sqlite3.Error as error:
            say("failed", number, type(error).__name__)
        say("read", *[n for _, n in tokens(str((await context.snapshot("p"))["dialogue"]))])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        await context.record_exchange("p", f"<full:{number + 1}>", "x" * 2_000)
        say("recorded", number + 1)


def serve() -> None:
    """Fork the processes of one batch after the other, until the input ends."""
    for line in sys.stdin:
        for kind, *arguments in json.loads(line):
            if not (pid := os.fork()):
                _run(kind, arguments)
            say("started", pid)
        try:
            while True:
                say("exited", *os.wait())
        except ChildProcessError:
            say("done")


def _run(kind: str, arguments: list[Any]) -> None:
    """Run as a forked process, which never returns."""
    signal.alarm(LONGEST_S)
    status = 1
    try:
        asyncio.run(KINDS[kind](*arguments))
        status = 0
    except BaseException:  # noqa: BLE001 - it is told in full
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


async def write_postgres(address: str, name: str) -> None:
    """Record forty exchanges of one participant, ten at a time."""
    async with (
        AsyncPostgresSaver.from_conn_string(address) as saver,
        ContextManager(
            ScriptedModel(),
            checkpointer=saver,
            dialogue_budget_bytes=100_000,
            compaction_input_budget_bytes=60_000,
        ) as context,
    ):
        for start in range(0, 40, 10):
            async with asyncio.TaskGroup() as group:
                for number in range(start, start + 10):
                    group.create_task(context.record_exchange("p", f"{name} {number}", "ok"))


async def write_sqlite(path: str) -> None:
    """Record exchanges for ever, and print the request of each that is durable."""
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        context = ContextManager(
            ScriptedModel(),
            checkpointer=saver,
            dialogue_budget_bytes=100_000,
            compaction_input_budget_bytes=60_000,
        )
        number = 0
        while True:
            await context.record_exchange("p", f"{os.getpid()}.{number}", "x" * 200)
            sys.stdout.write(f"{os.getpid()}.{number}\n")
            sys.stdout.flush()
            number += 1


KINDS: dict[str, Callable[..., Any]] = {
    "live": live,
    "hold": hold,
    "fill": fill,
    "postgres": write_postgres,
    "sqlite": write_sqlite,
}

if __name__ == "__main__":
    kind, *given = sys.argv[1:]
    if kind == "serve":
        serve()
    else:
        asyncio.run(KINDS[kind](*given))
