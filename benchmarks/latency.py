# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""How long a turn takes beside its model, against LangChain's agent with its summarisation middleware.

    uv run python benchmarks/latency.py

Both have the same fake model and the same saver, in one run; trust the ratios. A request is on its way when the model
is called; a turn is over when it is recorded.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fakes.chat import Piece, Script, ScriptedModel, says

from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.graph.stores import Saver

TURNS = 150
ASKED, SAID = "What do you know about it? " * 4, "It was checked and looks fine. " * 8
SUMMARY_SECONDS = 0.5
CONSOLE = Console()

Turn = Callable[[int], Awaitable[None]]


class Timed:
    """A model that notes when it is called."""

    def __init__(self) -> None:
        self.called = 0.0
        self.model = ScriptedModel(script=self._script)

    async def _script(self, _: list[BaseMessage]) -> AsyncIterator[Piece]:
        self.called = time.perf_counter()
        yield SAID


async def slow_summary(_: list[BaseMessage]) -> AsyncIterator[Piece]:
    """Take half a second, as a quick model would."""
    await asyncio.sleep(SUMMARY_SECONDS)
    yield "They spoke of it."


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncIterator[Saver]:
    """Open a saver of a kind, in memory or in a file."""
    if kind == "memory":
        yield InMemorySaver()
    else:
        async with AsyncSqliteSaver.from_conn_string(str(folder / "context.db")) as saver:
            yield saver


async def measure(turn: Turn, timed: Timed, turns: int = TURNS) -> list[float]:
    """Return the milliseconds from call to request of each turn."""
    found = []
    for number in range(turns):
        began = time.perf_counter()
        await turn(number)
        found.append((timed.called - began) * 1e3)
    return found


async def ours(saver: Saver, script: Script, turns: int = TURNS) -> list[float]:
    """Measure turns of a conversation whose summariser follows a script."""
    timed = Timed()
    summariser = ScriptedModel(script=script)
    async with ContextManager(summariser, checkpointer=saver) as context:
        talk = Conversation(timed.model, context=context)

        async def turn(number: int) -> None:
            async for _ in talk.stream("ann", f"{number}: {ASKED}"):
                pass

        return await measure(turn, timed, turns)


async def peers(saver: Saver, script: Script, turns: int = TURNS) -> list[float]:
    """Measure turns of LangChain's agent with its summarisation middleware."""
    timed = Timed()
    middleware = SummarizationMiddleware(
        model=ScriptedModel(script=script), trigger=("tokens", 1_000), keep=("messages", 4)
    )
    agent = create_agent(timed.model, middleware=[middleware], checkpointer=saver)
    ann: RunnableConfig = {"configurable": {"thread_id": "ann"}}

    async def turn(number: int) -> None:
        asked = {"messages": [HumanMessage(f"{number}: {ASKED}")]}
        async for _ in agent.astream(asked, ann, stream_mode="messages"):  # type: ignore[call-overload]
            pass

    return await measure(turn, timed, turns)


def quantile(values: list[float], share: float) -> float:
    """Return a quantile of values."""
    return sorted(values)[int(share * (len(values) - 1))]


async def requests(table: Table, folder: Path) -> None:
    """Measure the time from call to request."""
    for kind in ("memory", "sqlite"):
        results = {}
        for name, run in (("ours", ours), ("peer", peers)):
            for state, script in (
                ("summaries at once", says("They spoke.")),
                ("summaries of 0.5 s", slow_summary),
            ):
                place = folder / f"{kind}-{name}-{state.replace(' ', '-')}"
                place.mkdir()
                async with opened(kind, place) as saver:
                    results[name, state] = await run(saver, script)
        one, other = results["ours", "summaries at once"], results["peer", "summaries at once"]
        slow, peer_slow = results["ours", "summaries of 0.5 s"], results["peer", "summaries of 0.5 s"]
        table.add_row(
            f"call → request, p50, {kind}", *figures(statistics.median(one), statistics.median(other), "ms")
        )
        table.add_row(
            f"call → request, p95, {kind}", *figures(quantile(one, 0.95), quantile(other, 0.95), "ms")
        )
        table.add_row(
            f"p95 while summaries of 0.5 s run, {kind}",
            *figures(quantile(slow, 0.95), quantile(one, 0.95), "ms"),
        )
        waited = [sum(value > SUMMARY_SECONDS * 900 for value in found) for found in (slow, peer_slow)]
        table.add_row(
            f"answers of {TURNS} that waited for a summary, {kind}", str(waited[0]), str(waited[1]), ""
        )


def figures(one: float, other: float, unit: str) -> tuple[str, str, str]:
    """Return two figures and their ratio as they are shown."""
    return f"{one:.2f} {unit}", f"{other:.2f} {unit}", f"{one / other:.2f}"


async def long_sessions(table: Table, folder: Path) -> None:
    """Measure turns and commits late in a session against early ones."""
    timed = Timed()
    async with (
        opened("sqlite", folder) as saver,
        ContextManager(ScriptedModel(script=says("They spoke.")), checkpointer=saver) as context,
    ):
        talk = Conversation(timed.model, context=context)

        async def turn(number: int) -> None:
            async for _ in talk.stream("ann", f"{number}: {ASKED}"):
                pass

        async def commits(count: int) -> float:
            found = []
            for number in range(count):
                began = time.perf_counter()
                await context.record_exchange("ann", f"{time.perf_counter_ns()} {number}", "ok")
                found.append((time.perf_counter() - began) * 1e3)
            return statistics.median(found)

        async def grow(total: int) -> None:
            known = len((await context.snapshot("ann"))["identities"]) // 16
            for number in range(total - known):
                await context.record_exchange("ann", f"grow {known + number}", SAID)

        await grow(20)
        early_turn = statistics.median(await measure(turn, timed, 40))
        await grow(100)
        early_commit = await commits(60)
        await grow(1_000)
        await context.settled()
        size = sum(path.stat().st_size for path in folder.glob("context.db*"))  # noqa: ASYNC240
        table.add_row("bytes on disk a turn after 1,000 exchanges, SQLite", f"{size / 1_000:,.0f}", "", "")
        await grow(2_000)
        late_turn = statistics.median(await measure(turn, timed, 40))
        table.add_row("call → request at 2,000 exchanges, against 20", *figures(late_turn, early_turn, "ms"))
        await grow(10_000)
        late_commit = await commits(60)
        table.add_row("commit at exchange 10,000, against 100", *figures(late_commit, early_commit, "ms"))


async def peers_disk(table: Table, folder: Path) -> None:
    """Measure what the peer leaves on disk."""
    async with opened("sqlite", folder) as saver:
        await peers(saver, says("They spoke."), 300)
    size = sum(path.stat().st_size for path in folder.glob("context.db*"))  # noqa: ASYNC240
    table.add_row("the same of the peer, after 300", "", f"{size / 300:,.0f}", "")


async def idle(table: Table) -> None:
    """Measure the memory of participants that have said something, and are idle."""
    count = 2_000
    async with ContextManager(ScriptedModel()) as context:
        await context.record_exchange("warm", "up", "ok")
        gc.collect()
        tracemalloc.start()
        for number in range(count):
            await context.record_exchange(f"p{number}", "Hello", "Hi")
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    table.add_row(f"bytes in memory an idle participant, of {count:,}", f"{held / count:,.0f}", "", "")


async def main() -> None:
    """Run all measurements and print them."""
    table = Table("what", "ours", "against", "ratio")
    with tempfile.TemporaryDirectory() as name, CONSOLE.status("measuring, about two minutes") as status:
        folder = Path(name)
        await requests(table, folder)
        for step, run in (("long sessions", long_sessions), ("the peer's disk", peers_disk)):
            status.update(step)
            place = folder / step.replace(" ", "-")
            place.mkdir()
            await run(table, place)
        await idle(table)
    CONSOLE.print(table)


if __name__ == "__main__":
    asyncio.run(main())
