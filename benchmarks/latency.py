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
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
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
from xr_ai_conversation.xr import AgentExchange

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


@dataclass
class Rival:
    """One of those that are compared: its turns, and when its model was called."""

    turn: Turn
    timed: Timed
    waits: list[float] = field(default_factory=list)
    """Milliseconds from call to request of each turn."""

    async def take(self, number: int) -> None:
        """Take a turn and note how long its request took to be on its way."""
        began = time.perf_counter()
        await self.turn(number)
        self.waits.append((self.timed.called - began) * 1e3)


@asynccontextmanager
async def ours(saver: Saver, script: Script) -> AsyncIterator[Rival]:
    """A conversation, whose summariser follows a script."""
    timed = Timed()
    async with ContextManager(ScriptedModel(script=script), checkpointer=saver) as context:
        talk = Conversation(timed.model, context=context)

        async def turn(number: int) -> None:
            async for _ in talk.stream("ann", f"{number}: {ASKED}"):
                pass

        yield Rival(turn, timed)


@asynccontextmanager
async def peer(saver: Saver, script: Script) -> AsyncIterator[Rival]:
    """LangChain's agent with its summarisation middleware, which keeps about as much as our default budget."""
    timed = Timed()
    middleware = SummarizationMiddleware(model=ScriptedModel(script=script), trigger=("tokens", 2_000))
    agent = create_agent(timed.model, middleware=[middleware], checkpointer=saver)
    ann: RunnableConfig = {"configurable": {"thread_id": "ann"}}

    async def turn(number: int) -> None:
        asked = {"messages": [HumanMessage(f"{number}: {ASKED}")]}
        async for _ in agent.astream(asked, ann, stream_mode="messages"):  # type: ignore[call-overload]
            pass

    yield Rival(turn, timed)


async def compare(kind: str, folder: Path, scripts: dict[str, Script]) -> dict[str, list[float]]:
    """Let ours and the peer take turns in turn, so that what else the machine does meets both.

    Returns:
        The waits of each rival, by its name and that of its summariser's script.
    """
    async with AsyncExitStack() as stack:
        rivals: dict[str, Rival] = {}
        for state, script in scripts.items():
            for name, rival in (("ours", ours), ("peer", peer)):
                place = folder / f"{kind}-{name}-{state}"
                place.mkdir()
                saver = await stack.enter_async_context(opened(kind, place))
                rivals[f"{name}, {state}"] = await stack.enter_async_context(rival(saver, script))
        for number in range(TURNS):
            for one in rivals.values():
                await one.take(number)
        return {name: one.waits for name, one in rivals.items()}


def quantile(values: list[float], share: float) -> float:
    """Return a quantile of values."""
    return sorted(values)[int(share * (len(values) - 1))]


async def requests(table: Table, folder: Path) -> None:
    """Measure the time from call to request."""
    for kind in ("memory", "sqlite"):
        found = await compare(kind, folder, {"quick": says("They spoke of it."), "slow": slow_summary})
        one, other = found["ours, quick"], found["peer, quick"]
        slow, peer_slow = found["ours, slow"], found["peer, slow"]
        table.add_row(
            f"call → request, p50, {kind}", *figures(statistics.median(one), statistics.median(other), "ms")
        )
        table.add_row(
            f"call → request, p95, {kind}", *figures(quantile(one, 0.95), quantile(other, 0.95), "ms")
        )
        table.add_row(
            f"p95 while summaries of 0.5 s run, against quick ones, {kind}",
            *figures(quantile(slow, 0.95), quantile(one, 0.95), "ms"),
        )
        waited = [sum(value > SUMMARY_SECONDS * 900 for value in waits) for waits in (slow, peer_slow)]
        table.add_row(
            f"answers of {TURNS} that waited for a summary, {kind}", str(waited[0]), str(waited[1]), ""
        )
        for name, count in (("ours", 1_000), ("peer", 300)) if kind == "sqlite" else ():
            place = folder / f"disk-{name}"
            place.mkdir()
            async with (
                opened(kind, place) as saver,
                {"ours": ours, "peer": peer}[name](saver, says("They spoke of it.")) as rival,
            ):
                for number in range(count):
                    await rival.take(number)
            size = (place / "context.db").stat().st_size
            table.add_row(f"bytes on disk a turn, {name}, {count:,} turns", *(f"{size / count:,.0f}", "", ""))


def figures(one: float, other: float, unit: str) -> tuple[str, str, str]:
    """Return two figures and their ratio as they are shown."""
    return f"{one:.2f} {unit}", f"{other:.2f} {unit}", f"{one / other:.2f}"


async def long_sessions(table: Table, folder: Path) -> None:
    """Measure the turns and commits of a participant with a long past against those of one with a short one."""
    timed = Timed()
    turns: dict[str, list[float]] = {"short": [], "long": []}
    commits: dict[str, list[float]] = {"young": [], "old": []}
    async with (
        opened("sqlite", folder) as saver,
        ContextManager(ScriptedModel(script=says("They spoke of it.")), checkpointer=saver) as context,
    ):
        talk = Conversation(timed.model, context=context)
        for name, past in (("short", 20), ("long", 2_000), ("young", 100), ("old", 10_000)):
            await context.reconcile(
                name, [AgentExchange(f"{number}: {ASKED}", SAID) for number in range(past)]
            )
        await context.settled()
        for number in range(60):
            for name, found in turns.items():
                began = time.perf_counter()
                async for _ in talk.stream(name, f"{number}: {ASKED}"):
                    pass
                found.append((timed.called - began) * 1e3)
            for name, found in commits.items():
                began = time.perf_counter()
                await context.record_exchange(name, f"{number}", "ok")
                found.append((time.perf_counter() - began) * 1e3)
    table.add_row(
        "call → request at 2,000 exchanges, against 20",
        *figures(statistics.median(turns["long"]), statistics.median(turns["short"]), "ms"),
    )
    table.add_row(
        "commit at exchange 10,000, against 100",
        *figures(statistics.median(commits["old"]), statistics.median(commits["young"]), "ms"),
    )


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
        status.update("long sessions")
        (folder / "long").mkdir()
        await long_sessions(table, folder / "long")
        status.update("idle participants")
        await idle(table)
    CONSOLE.print(table)


if __name__ == "__main__":
    asyncio.run(main())
