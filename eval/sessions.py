# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Long sessions: facts, corrections, names and numbers in several languages, and what comes between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from eval.cases import NOTES, Case, Noted, Probe, Said, Step
from eval.facts import LANGUAGES, SIMPLE, TALK, UNKNOWN, Subject

DISTANCES = (1, 2, 4, 8, 16, 24, 32)
"""Turns between the last word on a fact and the question for it."""
CORRECTED_EARLIER = 6
"""Turns by which the first word on a corrected fact stands before the last."""
OVERSIZED = 3_000
"""Bytes of an oversized exchange or note."""


def sessions(count: int, turns: int = 40) -> Iterator[Case]:
    """Yield sessions that end in questions.

    Of each, every second fact is corrected, every third is noted by another agent instead of said; two things that are
    asked were never said. Every second session has an exchange and a note that are larger than the budget.

    Args:
        count: How many.
        turns: Exchanges or notes of each; at least the longest distance and what a correction needs.
    """
    for seed in range(count):
        chance = random.Random(f"session {seed}")
        distances = [each for each in DISTANCES if each + CORRECTED_EARLIER <= turns]
        facts = _facts(chance, len(distances))
        last = {turns - distance: fact for distance, fact in zip(distances, facts, strict=True)}
        said: dict[int, list[tuple[Subject, str]]] = {}
        probes: list[tuple[Subject, int, list[str]]] = []
        for number, (turn, subject) in enumerate(last.items()):
            corrected = (number + seed) % 2 == 0
            values = chance.sample(subject.values, 2 if corrected else 1)
            for value, at in zip(reversed(values), (turn, turn - CORRECTED_EARLIER), strict=False):
                said.setdefault(at, []).append((subject, value))
            probes.append((subject, turn, values))
        yield _session(seed, chance, turns, said, probes)


def _facts(chance: random.Random, number: int) -> list[Subject]:
    """Draw subjects: two in other languages, the rest plain."""
    chosen = [*chance.sample(LANGUAGES, min(2, number // 3)), *chance.sample(SIMPLE, len(SIMPLE))][:number]
    chance.shuffle(chosen)
    return chosen


def _session(
    seed: int,
    chance: random.Random,
    turns: int,
    said: dict[int, list[tuple[Subject, str]]],
    probes: list[tuple[Subject, int, list[str]]],
) -> Case:
    time = datetime(2026, 3, 4, 9, 0, tzinfo=timezone(timedelta(hours=1)))
    steps: list[Step] = []
    events: list[int] = []  # the event that a turn's last statement is
    for turn in range(turns):
        talk = TALK[(seed * 5 + turn) % len(TALK)]
        time += timedelta(minutes=chance.randint(1, 9))
        stated = said.get(turn, [])
        oversized = seed % 2 == 0 and turn in (turns // 4, turns // 2)
        for number, (subject, value) in enumerate(stated):
            time += timedelta(minutes=1)
            text = subject.stated(value)
            noted = (turn + number + seed) % 3 == 0
            steps.append(Noted(time, NOTES, text) if noted else Said(time, text, "I see."))
        if not stated:
            if oversized and turn == turns // 4:
                text = " ".join(talk) + " "
                steps.append(Said(time, talk[0], (text * (OVERSIZED // len(text) + 1))[:OVERSIZED]))
            elif oversized:
                text = "All machines are running as they should. "
                steps.append(Noted(time, NOTES, (text * (OVERSIZED // len(text) + 1))[:OVERSIZED]))
            else:
                steps.append(Said(time, *talk))
        events.append(len(steps) - 1)
    time += timedelta(minutes=2)
    for subject, turn, (current, *stale) in ((s, t, v[::-1]) for s, t, v in probes):
        tags: dict[str, str | int] = {
            "kind": "corrected" if stale else "said once",
            "distance": turns - turn,
            "turn": events[turn],
            "language": subject.language,
        }
        steps.append(Probe(subject.name, subject.question, time, (current,), tuple(stale), tags))
    unknown: dict[str, str | int] = {"kind": "never said", "language": "en"}
    steps += [Probe(each.name, each.question, time, (), (), unknown) for each in UNKNOWN]
    statements = tuple(subject.stated(value) for subject, _, values in probes for value in values)
    return Case(f"session {seed} of {turns}", tuple(steps), statements)


__all__ = ["CORRECTED_EARLIER", "DISTANCES", "OVERSIZED", "sessions"]
