# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A long session on a real server: what of each prompt it has in its cache, and what each cause makes it compute anew."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from fakes.chat import ScriptedModel, replies
from langchain_core.messages import BaseMessage
from rich.progress import Progress

from benchmarks.contenders import BARE, COLORS, CONTENDERS, OURS, TOPICS, Contender, Ours, taken
from benchmarks.figures import Benchmark, Goal, Of, Row, Rows, Step, Table, pooled, shown
from benchmarks.models import real_models
from benchmarks.stores import stores
from xr_ai_conversation.state.prompt import prompt_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PROMPT, CACHED, FIRST = "prompt tokens", "prompt tokens from the cache", "call → first token"
SHARE, BYTES = "share from the cache", "bytes in the prompt"
TURN, NOTE, CAMERA = "nothing but the turn before", "a note", "a new state of the camera"
DIALOGUE, NOTES = "a summary of the dialogue", "a summary of the notes"
CAUSES = (TURN, NOTE, CAMERA, NOTES, DIALOGUE)

_ANSWER_TOKENS = 24
_SUMMARY_BYTES = 900
_WORDS = [
    "pump",
    "hall",
    "seal",
    "gauge",
    "three",
    "seven",
    "valve",
    "checked",
    "leaks",
    "blue",
    "crate",
    "north",
    "rack",
    "humming",
    "sensor",
    "door",
    "badge",
    "meeting",
    "calibration",
    "Wednesday",
    "Thursday",
    "ten",
    "drawer",
    "spare",
    "key",
    "laser",
    "bench",
    "filter",
    "replaced",
    "cold",
    "warm",
    "open",
    "shut",
    "Ann",
    "Ben",
    "Mia",
    "report",
]


def words(size: int, seed: str) -> str:
    """Return made-up text of about so many bytes, the same for the same seed."""
    pick, text = random.Random(seed), ""
    while len(text) < size:
        text += f"{pick.choice(_WORDS)} "
    return f"{text.strip().capitalize()}."


def summarise(messages: list[BaseMessage]) -> str:
    """Return a summary of a fixed length, another one each time."""
    return words(_SUMMARY_BYTES, str(messages[-1].content))


async def _publish(contender: Contender, turn: int) -> str:
    """Publish what comes before a turn, and tell what that was."""
    cause = TURN
    if turn % 3 == 2:
        await contender.publish("ann", TOPICS[0], words(120, f"note {turn}"))
        cause = NOTE
    if turn % 10 == 5:
        await contender.publish("ann", TOPICS[1], words(100 + 100 * (turn // 10 % 4), f"view {turn}"))
        cause = CAMERA
    return cause


async def session(who: str, turns: int, progress: Progress) -> list[Row]:
    """Let a contender take all turns of the session, with summaries made between them."""
    summariser = ScriptedModel(script=replies(summarise))
    of: Of = {"who": who}
    share, rows = Row(SHARE, "", of, []), dict[tuple[str, str], Row]()
    sizes: dict[str, Row] = {}

    def note(what: str, unit: str, cause: str, value: float) -> None:
        row = rows.setdefault((what, cause), Row(what, unit, {"who": who, "after": cause}, []))
        row.values.append(value)

    async with (
        real_models(_ANSWER_TOKENS) as models,
        stores("memory") as open_store,
        open_store("session") as store,
        CONTENDERS[who](models.answers, summariser, store.saver) as contender,
    ):
        for number in progress.track(range(turns), description=f"session: {who}"):
            cause = await _publish(contender, number)
            await contender.rest()
            ready = len(summariser.requests)
            turn = await taken(contender, "ann", f"{number}: {words(60, f'question {number}')[:-1]}?")
            usage = contender.model.usage
            if usage is None or usage["output_tokens"] == 0:
                raise RuntimeError("the server does not tell the tokens of a request")
            cached = usage.get("input_token_details", {}).get("cache_read", 0)
            made = summariser.requests[:ready] if who == OURS else summariser.requests
            if made:  # ours before the turn, a peer's while it waited
                cause = NOTES if "Summarize the updates" in str(made[-1][-1].content) else DIALOGUE
            del summariser.requests[: len(made)]
            if number:  # nothing can be cached of the first
                note(PROMPT, "tokens", cause, usage["input_tokens"])
                note(CACHED, "tokens", cause, cached)
                note(FIRST, "ms", cause, turn.first_ms)
                share.values.append(cached / usage["input_tokens"])
            if isinstance(contender, Ours):
                await contender.rest()
                seen = prompt_view(await contender.context.snapshot("ann"), contender.context.budgets)
                for topic, size in seen.sizes.items():
                    name = topic or "dialogue"
                    row = sizes.setdefault(
                        name, Row(BYTES, "bytes", {"who": who, "section": name}, [0.0] * number)
                    )
                    row.values.append(size)
    return [share, *rows.values(), *sizes.values()]


def steps(quick: bool) -> Mapping[str, Step]:
    """Return what is to be measured."""
    logging.getLogger("xr_ai_conversation").setLevel(logging.ERROR)
    return {who: partial(session, who, 6 if quick else 200) for who in CONTENDERS if who != BARE}


def _between(rows: Rows, what: str, who: str) -> float:
    """Return the sum of tokens of all turns that no summary came before."""
    causes = (TURN, NOTE, CAMERA)
    return sum(row.total for row in rows.where(what, who=who) if row.of["after"] in causes)


def tables(rows: Rows) -> list[Table]:
    """Return the shares, and what each cause costs."""
    whole = Table(
        "Prompt tokens that the server had in its cache",
        ["who", "turns", "prompt tokens, mean", "share, between summaries", "share, of all", "computed a turn, mean",
         "first token p50, ms", "p95", "p99"],
    )  # fmt: skip
    causes = Table("Prompt tokens computed anew, median, by what came before the turn", ["who", *CAUSES])
    for who in map(str, rows.each("who")):
        prompts, cached = (sum(row.total for row in rows.where(what, who=who)) for what in (PROMPT, CACHED))
        times = pooled(rows.where(FIRST, who=who))
        turns = len(times.values)
        between = _between(rows, CACHED, who) / max(1, _between(rows, PROMPT, who))
        whole.add(
            who, f"{turns}", shown(prompts / turns), shown(between), shown(cached / prompts),
            shown((prompts - cached) / turns), *(shown(times.quantile(share)) for share in (0.5, 0.95, 0.99)),
        )  # fmt: skip
        causes.add(who, *(_anew(rows, who, cause) for cause in CAUSES))
    return [whole, causes]


def _anew(rows: Rows, who: str, cause: str) -> str:
    prompts, cached = (rows.find(what, who=who, after=cause) for what in (PROMPT, CACHED))
    if not prompts or not cached:
        return ""
    anew = [one - other for one, other in zip(prompts.values, cached.values, strict=True)]
    return f"{shown(Row('', '', {}, anew).median)} (of {shown(prompts.median)}; {len(anew)} turns)"


def draw(rows: Rows, figure: Figure) -> None:
    """Draw the share of each turn, and the bytes of our sections."""
    shares: Axes
    sizes: Axes
    shares, sizes = figure.subplots(1, 2)
    for who in map(str, rows.each("who")):
        for row in rows.where(SHARE, who=who):
            turns = range(2, 2 + len(row.values))
            shares.plot(turns, row.values, ".", markersize=4, color=COLORS[who], label=who)
    shares.set(xlabel="turn", ylabel="share of the prompt from the cache", ylim=(0, 1.02))
    for row in rows.where(BYTES):
        sizes.step(
            range(1, 1 + len(row.values)), row.values, where="post", label=f"{OURS}: {row.of['section']}"
        )
    sizes.set(xlabel="turn", ylabel="bytes in the prompt", ylim=(0, None))
    for axes in (shares, sizes):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=3)


def goals(rows: Rows) -> list[Goal]:
    """Return what was meant to be reached."""
    prompts = _between(rows, PROMPT, OURS)
    what = "share of prompt tokens from the cache, between summaries"
    return [Goal(what, _between(rows, CACHED, OURS) / prompts, 0.9, at_least=True)] if prompts else []


SESSION = Benchmark(
    name="session",
    title="What a server has of a prompt in its cache",
    about="""One participant talks for 200 turns; a note comes before every third, a new state of the camera before every
tenth, which to the peers are messages. The server is a real one, and its own figures count. Summaries are made-up text of
900 bytes for all, and ours are awaited between turns, so that it is only the prompts that are compared. A summary replaces
what the prompt begins with, so the turn after one is computed nearly whole.""",
    steps=steps,
    tables=tables,
    draw=draw,
    goals=goals,
)

__all__ = ["SESSION"]
