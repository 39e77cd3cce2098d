# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""One compaction each: how many of the facts that it was given a live summary still names."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from langchain_core.messages import HumanMessage, SystemMessage

from eval.cases import NOTES
from eval.facts import PERSONAL, SIMPLE, TALK
from eval.memories import Models
from xr_ai_conversation.nodes.message import reply_of
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.compaction import compaction, next_job
from xr_ai_conversation.state.context import ParticipantContext, Section, Summary, empty
from xr_ai_conversation.state.reply import Rejection, Reply
from xr_ai_conversation.state.times import stamp

BUDGETS = Budgets.of(incremental_topics=[NOTES], dialogue_bytes=2_400, topic_bytes=2_400)
"""A summary may have a quarter of a section."""
FACTS = 2
"""New facts of each compaction, and old ones where there is an earlier summary."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """A section that is to be compacted, and the facts in it."""

    name: str
    topic: str | None
    context: ParticipantContext
    new: tuple[str, ...]
    """Values that the entries state."""
    old: tuple[str, ...]
    """Values that the earlier summary states."""
    wording: str
    """Which kind of sentences state them."""


def compactions(seeds: int) -> Iterator[Compaction]:
    """Yield, for each seed, one of each: dialogue and notes, without and with an earlier summary, plain and personal."""
    for seed in range(seeds):
        for wording, subjects in (("plain", SIMPLE), ("personal", PERSONAL)):
            for topic in (None, NOTES):
                for earlier in (False, True):
                    name = f"{wording} {topic or 'dialogue'}{', earlier summary' if earlier else ''}/{seed}"
                    chance = random.Random(f"summary {name}")
                    drawn = [(s, chance.choice(s.values)) for s in chance.sample(subjects, 2 * FACTS)]
                    said = [subject.stated(value) for subject, value in drawn[:FACTS]]
                    kept = [subject.stated(value) for subject, value in drawn[FACTS:]] if earlier else []
                    yield Compaction(
                        name,
                        topic,
                        _context(chance, topic, said, kept),
                        tuple(value for _, value in drawn[:FACTS]),
                        tuple(value for _, value in drawn[FACTS:]) if earlier else (),
                        wording,
                    )


def _context(
    chance: random.Random, topic: str | None, said: list[str], kept: list[str]
) -> ParticipantContext:
    time = datetime(2026, 3, 4, 9, 0, tzinfo=timezone(timedelta(hours=1)))
    talk = [*chance.sample(TALK, 3), *((text, "I see.") for text in said)]
    if topic:
        talk = [(f"Check {number} of the hall: nothing to report.", "") for number in range(3)] + talk[3:]
    chance.shuffle(talk)
    context = empty()
    found: Section = {"summary": None, "entries": []}
    for number, (text, response) in enumerate(talk):
        at = stamp(time + timedelta(minutes=3 * number))
        found["entries"].append(
            {"id": f"{number}", "time": at, "text": text}
            if topic
            else {"id": f"{number}", "time": at, "request": text, "response": response}
        )
    if kept:
        start, end = stamp(time - timedelta(hours=1)), stamp(time - timedelta(minutes=3))
        found["summary"] = Summary(id="earlier", text=" ".join(kept), start=start, end=end, covers=3)
    if topic:
        context["topics"][topic] = found
    else:
        newest = stamp(time + timedelta(hours=1))
        found["entries"].append(
            {"id": "newest", "time": newest, "request": "Thank you.", "response": "Gladly."}
        )
        context["dialogue"] = found
    return context


async def summary_of(each: Compaction, models: Models) -> tuple[str, str]:
    """Return the summary that the models make of a section, and why there is none."""
    entries = (
        each.context["topics"][each.topic]["entries"]
        if each.topic
        else each.context["dialogue"]["entries"][:-1]
    )
    job = next_job(each.context, each.topic, BUDGETS, entries[-1]["id"])
    assert job is not None
    steps = compaction(job, models.prompts, "new")
    request = next(steps)
    while True:
        try:
            message = await models.summaries.ainvoke(
                [SystemMessage(request.system), HumanMessage(request.user)]
            )
            reply = reply_of(message)
        except Exception:  # noqa: BLE001 - as the node that compacts: a failure is a reply
            reply = Reply("", finish="error")
        try:
            request = steps.send(reply)
        except StopIteration as end:
            outcome = end.value
            return ("", outcome.value) if isinstance(outcome, Rejection) else (outcome["summary"]["text"], "")


__all__ = ["BUDGETS", "FACTS", "Compaction", "compactions", "summary_of"]
