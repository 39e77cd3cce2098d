# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""How long a turn takes beside its model: until the model is asked, and until the first piece of the answer is there."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from fakes.chat import Piece, ScriptedModel
from langchain_core.messages import BaseMessage
from rich.progress import Progress

from benchmarks.contenders import (
    ASKED,
    BARE,
    COLORS,
    CONTENDERS,
    LANGCHAIN,
    OURS,
    SUMMARY,
    Contender,
    quick_model,
    quick_summariser,
    taken,
)
from benchmarks.figures import Benchmark, Goal, Of, Row, Rows, Step, Table, pooled, ratio, shown
from benchmarks.stores import KINDS, stores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REQUEST, FIRST, WAITED = "call → model request", "call → first token", "turns that waited for a summary"
SUMMARY_SECONDS = 0.5
_QUICK, _SLOW = "at once", "0.5 s"


async def slow_summary(_: list[BaseMessage]) -> AsyncIterator[Piece]:
    """Take half a second, as a quick model would."""
    await asyncio.sleep(SUMMARY_SECONDS)
    yield SUMMARY


async def lengths(kind: str, pasts: list[int], turns: int, progress: Progress) -> list[Row]:
    """Let all contenders, with pasts of all lengths, take turns in turn, each while nothing runs in the background.

    Each round is in another order, so that what one leaves behind in the caches meets each of the others.
    """
    rows: list[Row] = []
    async with stores(kind) as open_store, AsyncExitStack() as stack:
        open_contenders: list[tuple[Contender, Row, Row]] = []
        for number, (who, past) in enumerate((who, past) for past in pasts for who in CONTENDERS):
            store = await stack.enter_async_context(open_store(f"store_{number}"))
            opener = CONTENDERS[who](quick_model(), quick_summariser(), store.saver)
            contender = await stack.enter_async_context(opener)
            await contender.fill("ann", past)
            of: Of = {"who": who, "saver": kind, "exchanges": past}
            rows += Row(REQUEST, "ms", of, []), Row(FIRST, "ms", of, [])
            open_contenders.append((contender, rows[-2], rows[-1]))
        gc.collect()
        gc.freeze()  # so that a collection is not the longer for what others hold
        for number in progress.track(range(turns + 1), description=f"latency: {kind}"):
            random.Random(number).shuffle(open_contenders)
            for contender, requests, firsts in open_contenders:
                turn = await taken(contender, "ann", f"{number}: {ASKED}")
                await contender.rest()
                if number:  # the first is for the caches
                    requests.values.append(turn.request_ms)
                    firsts.values.append(turn.first_ms)
        gc.unfreeze()
    return rows


async def summaries(kind: str, turns: int, progress: Progress) -> list[Row]:
    """Let all who summarise take turns in turn, with summaries that take no time and with some that take half a second."""
    scripts = {_QUICK: quick_summariser(), _SLOW: ScriptedModel(script=slow_summary)}
    rows: list[Row] = []
    async with stores(kind) as open_store, AsyncExitStack() as stack:
        open_contenders: list[tuple[Contender, Row]] = []
        for who, opener in CONTENDERS.items():
            for name, summariser in scripts.items() if who != BARE else ():
                store = await stack.enter_async_context(open_store(f"store_{len(rows)}"))
                found = await stack.enter_async_context(opener(quick_model(), summariser, store.saver))
                rows.append(Row(f"{REQUEST}, summaries", "ms", {"who": who, "saver": kind, "take": name}, []))
                open_contenders.append((found, rows[-1]))
        for number in progress.track(range(turns), description=f"latency: {kind}, summaries"):
            random.Random(number).shuffle(open_contenders)
            for contender, requests in open_contenders:
                requests.values.append((await taken(contender, "ann", f"{number}: {ASKED}")).request_ms)
    for row in rows[:]:
        if row.of["take"] == _SLOW:
            waited = sum(value > SUMMARY_SECONDS * 900 for value in row.values)
            rows.append(Row(WAITED, "turns", {**row.of, "of": len(row.values)}, [waited]))
    return rows


def steps(quick: bool) -> Mapping[str, Step]:
    """Return what is to be measured."""
    logging.getLogger("xr_ai_conversation").setLevel(
        logging.ERROR
    )  # sections over their budgets are meant here
    pasts, turns, more = ([20, 200], 5, 25) if quick else ([20, 200, 2_000], 100, 150)
    return {
        name: step
        for kind in KINDS
        for name, step in (
            (kind, partial(lengths, kind, pasts, turns)),
            (f"{kind}, summaries", partial(summaries, kind, more)),
        )
    }


def tables(rows: Rows) -> list[Table]:
    """Return the times, and the turns that were blocked."""
    found = []
    for what in (REQUEST, FIRST):
        table = Table(
            f"{what}, ms",
            [
                "saver",
                "exchanges",
                "who",
                "p50",
                "p95",
                "p99",
                f"p50 / {LANGCHAIN}",
                "p50 / its shortest past",
            ],
        )
        for row in rows.where(what):
            saver, past, who = row.of["saver"], row.of["exchanges"], row.of["who"]
            peer = rows.find(what, saver=saver, exchanges=past, who=LANGCHAIN)
            shortest = rows.find(what, saver=saver, exchanges=min(map(int, rows.each("exchanges"))), who=who)
            times = [shown(row.quantile(share)) for share in (0.5, 0.95, 0.99)]
            table.add(str(saver), f"{past:,}", str(who), *times, ratio(row, peer), ratio(row, shortest))
        found.append(table)
    table = Table(
        f"While summaries of {SUMMARY_SECONDS} s are made: {REQUEST}, ms",
        ["saver", "who", "p50", "p95", "p99", "p95 / with summaries that take no time", "turns that waited"],
    )
    for blocked in rows.where(WAITED):
        of = {key: blocked.of[key] for key in ("who", "saver")}
        slow, soon = (rows.find(f"{REQUEST}, summaries", take=take, **of) for take in (_SLOW, _QUICK))
        if slow and soon:
            late = slow.quantile(0.95)
            table.add(
                str(of["saver"]), str(of["who"]), shown(slow.median), shown(late), shown(slow.quantile(0.99)),
                shown(late / soon.quantile(0.95)), f"{blocked.total:.0f} of {blocked.of['of']}",
            )  # fmt: skip
    return [*found, table]


def draw(rows: Rows, figure: Figure) -> None:
    """Draw the times against the length of the past, a picture for each saver."""
    all_axes = figure.subplots(1, len(KINDS), sharey=True)
    for kind, axes in zip(KINDS, all_axes, strict=True):
        for who, color in COLORS.items():
            found = rows.where(REQUEST, saver=kind, who=who)
            pasts = [int(row.of["exchanges"]) for row in found]
            axes.plot(pasts, [row.median for row in found], "o-", color=color, label=who)
            axes.fill_between(
                pasts,
                [row.median for row in found],
                [row.quantile(0.95) for row in found],
                color=color,
                alpha=0.15,
                linewidth=0,
            )
        axes.set(xscale="log", yscale="log", xlabel="exchanges so far", title=kind)
        axes.grid(alpha=0.3)
    all_axes[0].set_ylabel(f"{REQUEST}, ms, median and up to p95")
    all_axes[1].legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=len(COLORS))


def goals(rows: Rows) -> list[Goal]:
    """Return what was meant to be reached."""
    found = []
    shortest, longest = (end(map(int, rows.each("exchanges"))) for end in (min, max))
    for kind in KINDS:
        ours, peer = (pooled(rows.where(REQUEST, saver=kind, who=who)) for who in (OURS, LANGCHAIN))
        mine = rows.find(REQUEST, saver=kind, who=OURS, exchanges=shortest)
        later = rows.find(REQUEST, saver=kind, who=OURS, exchanges=longest)
        soon, slow = (
            rows.find(f"{REQUEST}, summaries", saver=kind, who=OURS, take=take) for take in (_QUICK, _SLOW)
        )
        if mine and later and soon and slow:
            late = slow.quantile(0.95) / soon.quantile(0.95)
            found += [
                Goal(
                    f"{REQUEST}, p50 of all lengths, ours / {LANGCHAIN}, {kind}",
                    ours.median / peer.median,
                    0.4,
                ),
                Goal(
                    f"{REQUEST}, p50, at {longest:,} exchanges / at {shortest}, {kind}",
                    later.median / mine.median,
                    1.2,
                ),
                Goal(f"{REQUEST}, p95, while summaries are made / without, {kind}", late, 1.3),
            ]
        found += [
            Goal(f"answers that waited for a summary, {kind}", row.total, 0)
            for row in rows.where(WAITED, who=OURS, saver=kind)
        ]
    return found


LATENCY = Benchmark(
    name="latency",
    title="From the call to the model's request, and to the first token",
    about=f"""A turn's own cost, with a fake model that answers at once. {OURS.capitalize()} is `Conversation.stream` over a `ContextManager` with
its default budgets; {LANGCHAIN} is `create_agent` with `SummarizationMiddleware` at 2,000 tokens, its model called in the
mode `messages`; langmem is a graph with its `SummarizationNode` as its documentation builds it, also at 2,000 tokens; the
bare model is sent all that was said. All take turns in turn, in another order each round, in one process, over savers of
one kind. A past is stored at once, and summarised before the clock runs.""",
    steps=steps,
    tables=tables,
    draw=draw,
    goals=goals,
)

__all__ = ["LATENCY"]
