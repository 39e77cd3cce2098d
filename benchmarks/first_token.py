# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The first token of an answer of a real model, alone and while a compaction runs on the same machine."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from rich.progress import Progress

from benchmarks.contenders import SYSTEM
from benchmarks.figures import Benchmark, Goal, Row, Rows, Step, Table, shown
from benchmarks.models import real_models

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIRST, COMPACTION = "call → first token", "a compaction of 11,000 bytes"
_COLD, _ALONE, _BESIDE = "nothing cached", "prefix cached", "prefix cached, during a compaction"
_ANSWER_TOKENS, _SUMMARY_TOKENS = 64, 150
_SECONDS_BETWEEN_ANSWERS = 3.0
_GIVE_UP_SECONDS = 240.0


def dialogue(size: int, seed: int) -> str:
    """Return that many bytes of made-up dialogue, the same for the same seed."""
    pick = random.Random(seed).choice
    text = ""
    while len(text) < size:
        text += (
            f"{pick(['Caroline', 'Mel', 'Jon', 'Gina'])}: I {pick(['painted', 'sold', 'mended', 'found'])} the "
            f"{pick(['fence', 'lamp', 'boat', 'piano', 'map'])} on {pick(['Monday', 'Friday', 'Sunday'])}.\n"
        )
    return text[:size]


def question(number: int) -> list[BaseMessage]:
    """Return an answer's three messages: 3,000 bytes of context that stay, and a new request."""
    return [
        SystemMessage(SYSTEM),
        HumanMessage(dialogue(3_000, seed=0)),
        HumanMessage(f"Question {number}: who sold the boat?"),
    ]


async def first_token_ms(model: BaseChatModel, number: int) -> float:
    """Ask, read the whole answer, and return the time to its first token."""
    asked, first = perf_counter(), 0.0
    async for chunk in model.astream(question(number)):
        if chunk.content:
            first = first or perf_counter()
    if not first:
        raise RuntimeError("the answer was empty")
    return (first - asked) * 1e3


async def compaction_seconds(model: BaseChatModel, seed: int) -> float:
    """Summarise what no prompt cache holds yet, and return how long it took."""
    started = perf_counter()
    task = f"{dialogue(11_000, seed)}\n\nSummarise this in four sentences."
    reply = await model.ainvoke(task, max_tokens=_SUMMARY_TOKENS)
    if not reply.text:
        raise RuntimeError("the summary was empty")
    return perf_counter() - started


async def measure(answers: int, progress: Progress) -> list[Row]:
    """Measure answers alone, a compaction alone, and both at once."""
    first = {when: Row(FIRST, "ms", {"when": when}, []) for when in (_COLD, _ALONE, _BESIDE)}
    whole = {when: Row(COMPACTION, "s", {"when": when}, []) for when in ("alone", "answers meanwhile")}
    async with real_models(_ANSWER_TOKENS) as models:
        first[_COLD].values.append(await first_token_ms(models.answers, 0))
        for number in progress.track(range(1, 1 + answers), description="first token: alone"):
            first[_ALONE].values.append(await first_token_ms(models.answers, number))
        whole["alone"].values.append(await compaction_seconds(models.summaries, seed=1))
        task = progress.add_task("first token: during a compaction", total=None)
        async with asyncio.timeout(_GIVE_UP_SECONDS), asyncio.TaskGroup() as tasks:
            compaction = tasks.create_task(compaction_seconds(models.summaries, seed=2))
            while not compaction.done():
                number = 100 + len(first[_BESIDE].values)
                first[_BESIDE].values.append(await first_token_ms(models.answers, number))
                progress.advance(task)
                await asyncio.wait([compaction], timeout=_SECONDS_BETWEEN_ANSWERS)
        whole["answers meanwhile"].values.append(compaction.result())
    return [*first.values(), *whole.values()]


def steps(quick: bool) -> Mapping[str, Step]:
    """Return what is to be measured; a quick look has no time for a compaction."""
    return {} if quick else {"all": partial(measure, 12)}


def tables(rows: Rows) -> list[Table]:
    """Return the times."""
    table = Table(
        "First token of an answer to 3,000 bytes of context, ms", ["when", "p50", "most", "answers"]
    )
    for row in rows.where(FIRST):
        table.add(str(row.of["when"]), shown(row.median), shown(max(row.values)), f"{len(row.values)}")
    other = Table(f"{COMPACTION.capitalize()}, s", ["when", "took"])
    for row in rows.where(COMPACTION):
        other.add(str(row.of["when"]), shown(row.total))
    return [table, other]


def draw(rows: Rows, figure: Figure) -> None:
    """Draw all times."""
    axes = figure.subplots()
    for place, row in enumerate(rows.where(FIRST)):
        axes.plot(row.values, [place] * len(row.values), "o", alpha=0.6, color="tab:blue")
    axes.set_yticks(range(len(rows.where(FIRST))), [str(row.of["when"]) for row in rows.where(FIRST)])
    axes.set(xlabel=f"{FIRST}, ms", xscale="log")
    axes.grid(alpha=0.3)


def goals(rows: Rows) -> list[Goal]:
    """Return what was meant to be reached."""
    alone, beside = (rows.find(FIRST, when=when) for when in (_ALONE, _BESIDE))
    if not alone or not beside:
        return []
    return [Goal("first token, p50, during a compaction / without", beside.median / alone.median, 3.0)]


FIRST_TOKEN = Benchmark(
    name="first_token",
    title="An answer while a compaction runs",
    about="""A real model on the machine that it shares: answers, one every few seconds, while a compaction of 11,000 bytes
that no cache holds runs on the model for summaries, against the same answers alone.""",
    steps=steps,
    tables=tables,
    draw=draw,
    goals=goals,
)

__all__ = ["FIRST_TOKEN"]
