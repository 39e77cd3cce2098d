# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure the first token of an answer of the embedded model, alone and while a compaction runs."""

import asyncio
import random
import statistics
from time import perf_counter

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from rich.console import Console
from rich.table import Table

from xr_ai_conversation.models import EmbeddedModel

ANSWERS_ALONE = 12
ANSWER_TOKENS = 64
SUMMARY_TOKENS = 150
SECONDS_BETWEEN_ANSWERS = 3.0
GIVE_UP_SECONDS = 120.0


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
        SystemMessage("You are a helpful assistant. Answer in one sentence."),
        HumanMessage(dialogue(3_000, seed=0)),
        HumanMessage(f"Question {number}: who sold the boat?"),
    ]


async def first_token_seconds(model: EmbeddedModel, number: int) -> float:
    """Ask, read the whole answer, and return the time to its first token."""
    asked, first = perf_counter(), None
    async for chunk in model.answers.astream(question(number), max_tokens=ANSWER_TOKENS):
        if first is None and chunk.content:
            first = perf_counter() - asked
    if first is None:
        raise RuntimeError("the answer was empty")
    return first


async def compaction_seconds(model: EmbeddedModel, seed: int) -> float:
    """Summarise 11,000 bytes that no prompt cache holds yet, and return how long it took."""
    started = perf_counter()
    task = f"{dialogue(11_000, seed)}\n\nSummarise this in four sentences."
    reply = await model.summaries.ainvoke(task, max_tokens=SUMMARY_TOKENS)
    if not reply.text:
        raise RuntimeError("the summary was empty")
    return perf_counter() - started


async def measure(model: EmbeddedModel) -> Table:
    """Return the table of all figures."""
    cold = await first_token_seconds(model, 0)
    alone = [await first_token_seconds(model, number) for number in range(1, 1 + ANSWERS_ALONE)]
    compaction_alone = await compaction_seconds(model, seed=1)

    beside: list[float] = []
    async with asyncio.timeout(GIVE_UP_SECONDS), asyncio.TaskGroup() as tasks:
        compaction = tasks.create_task(compaction_seconds(model, seed=2))
        while not compaction.done():
            await asyncio.wait([compaction], timeout=SECONDS_BETWEEN_ANSWERS)
            if not compaction.done():
                beside.append(await first_token_seconds(model, 100 + len(beside)))

    table = Table("embedded model", "p50 s", "worst s", "runs", title="First token of an answer")
    for name, seconds in (
        ("cold", [cold]),
        ("(a) prefix cached, alone", alone),
        ("(b) prefix cached, during a compaction", beside),
    ):
        table.add_row(name, f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}", str(len(seconds)))
    table.add_row("(b) / (a), goal 3.0", f"{statistics.median(beside) / statistics.median(alone):.1f}")
    table.add_section()
    table.add_row("compaction of 11,000 bytes, alone", f"{compaction_alone:.1f}", "", "1")
    table.add_row("the same, answers every 3 s", f"{compaction.result():.1f}", "", "1")
    return table


async def main() -> None:
    """Load the model, measure, print."""
    async with EmbeddedModel() as model:
        Console().print(await measure(model))


if __name__ == "__main__":
    asyncio.run(main())
