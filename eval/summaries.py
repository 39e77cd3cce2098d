# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""One compaction each: how many of the facts that it was given a live summary still names."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from eval.cases import NOTES
from eval.facts import PERSONAL, SIMPLE, TALK
from eval.grading import names
from eval.memories import Models
from eval.report import Row, share
from eval.run import Answer, Results, progress
from xr_ai_conversation.nodes.compact import compact_node
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.compaction import takeable
from xr_ai_conversation.state.context import ParticipantContext, Section, Summary, empty, section
from xr_ai_conversation.state.participant import NodeInput
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
                    known = [subject.stated(value) for subject, value in drawn[FACTS:]] if earlier else []
                    yield Compaction(
                        name,
                        topic,
                        _context(chance, topic, said, known),
                        tuple(value for _, value in drawn[:FACTS]),
                        tuple(value for _, value in drawn[FACTS:]) if earlier else (),
                        wording,
                    )


def _context(
    chance: random.Random, topic: str | None, said: list[str], known: list[str]
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
    if known:
        start, end = stamp(time - timedelta(hours=1)), stamp(time - timedelta(minutes=3))
        found["summary"] = Summary(id="earlier", text=" ".join(known), start=start, end=end, covers=3)
    if topic:
        context["topics"][topic] = found
    else:
        newest = stamp(time + timedelta(hours=1))
        found["entries"].append(
            {"id": "newest", "time": newest, "request": "Thank you.", "response": "Gladly."}
        )
        context["dialogue"] = found
    return context


async def kept(asked: Sequence[Compaction], models: Models, path: Path) -> list[Row]:
    """Return the shares of facts that summaries keep, by kind; what is in the file already is not asked again."""
    results = Results(path)
    with progress() as shown:
        for each in shown.track(asked, description="compactions"):
            if f"{models.name}/{each.name}" not in results.answers:
                results.add(await _answer(each, models))
    texts = [(each, results.answers[f"{models.name}/{each.name}"]["answer"]) for each in asked]
    found: dict[str, list[bool]] = {}
    for each, text in texts:
        for kind, values in (("new", each.new), ("of the earlier summary", each.old)):
            found.setdefault(f"{each.wording}, {kind}", []).extend(names(text, [value]) for value in values)
    found["all facts"] = [hit for hits in found.values() for hit in hits]
    found["summaries made"] = [bool(text) for _, text in texts]
    return [{"facts": kind, "n": len(hits), "kept": share(hits)} for kind, hits in found.items() if hits]


async def _answer(each: Compaction, models: Models) -> Answer:
    begun = time.perf_counter()
    text, why = await _summary_of(each, models)
    return Answer(
        id=f"{models.name}/{each.name}",
        memory="ours",
        case=each.name,
        question="",
        current=[*each.new, *each.old],
        stale=[],
        tags={"rejected": why},
        prompt="",
        bytes=0,
        answer=text,
        seconds=round(time.perf_counter() - begun, 3),
        compactions=1,
    )


async def _summary_of(each: Compaction, models: Models) -> tuple[str, str]:
    """Return the summary that the models make of a section, or why there is none."""
    given: NodeInput = {
        "known": each.context,
        "until": takeable(section(each.context, each.topic), each.topic)[-1]["id"],
    }
    if each.topic:
        given["topic"] = each.topic
    node = compact_node(models.summaries, BUDGETS, models.prompts, new_id=lambda: "new")
    changes = await node.ainvoke(given)
    for operation in changes["context"]:
        if operation["op"] == "compact":
            return operation["summary"]["text"], ""
    return "", changes["rejected"]


__all__ = ["BUDGETS", "FACTS", "Compaction", "compactions", "kept"]
