# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Cases in which two records disagree, and which of them is newer only their times tell."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import cycle

from eval.cases import NOTES, STATUS, Case, Noted, Probe, Said, Step
from eval.facts import SIMPLE, TALK

_WINTER = timezone(timedelta(hours=1))
_WEST = timezone(timedelta(hours=-5))


class _Session:
    """A session while it is written."""

    def __init__(self, chance: random.Random) -> None:
        self.steps: list[Step] = []
        self.time = datetime(2026, 3, 4, 14, 13, tzinfo=_WINTER)
        self._talk = cycle(chance.sample(TALK, len(TALK)))

    def wait(self, *, seconds: float = 0, minutes: float = 4) -> None:
        self.time += timedelta(seconds=seconds, minutes=0 if seconds else minutes)

    def say(self, text: str) -> None:
        self.wait()
        self.steps.append(Said(self.time, text, "I see."))

    def note(self, text: str, topic: str = NOTES) -> None:
        self.wait()
        self.steps.append(Noted(self.time, topic, text))

    def talk(self, exchanges: int = 6) -> None:
        """Talk of other things; six exchanges push what was said before into the summary of the dialogue."""
        for _ in range(exchanges):
            self.wait(minutes=2)
            self.steps.append(Said(self.time, *next(self._talk)))

    def observe(self, notes: int = 8) -> None:
        """Note other things; eight notes push what was noted before into the summary of the notes."""
        for number in range(notes):
            self.wait(minutes=2)
            text = (
                f"Check {number + 1} of the hall: nothing to report, all machines are running as they should."
            )
            self.steps.append(Noted(self.time, NOTES, text))


def _control_dialogue(s: _Session, old: str, new: str) -> None:
    s.say(new)
    s.talk(1)


def _control_summary(s: _Session, old: str, new: str) -> None:
    s.say(new)
    s.talk()


def _summary_then_note(s: _Session, old: str, new: str) -> None:
    s.say(old)
    s.talk()
    s.note(new)


def _note_summary_then_dialogue(s: _Session, old: str, new: str) -> None:
    s.note(old)
    s.observe()
    s.say(new)


def _note_inside_the_span(s: _Session, old: str, new: str) -> None:
    s.say(old)
    s.talk(1)
    s.note(new)
    s.talk()


def _summary_is_newer(s: _Session, old: str, new: str) -> None:
    s.talk(1)
    s.note(old)
    s.say(new)
    s.talk()


def _same_section(s: _Session, old: str, new: str) -> None:
    s.say(old)
    s.talk()
    s.say(new)


def _same_notes(s: _Session, old: str, new: str) -> None:
    s.note(old)
    s.observe()
    s.note(new)


def _close(s: _Session, old: str, new: str) -> None:
    s.talk(1)
    s.say(old)
    s.wait(seconds=5 - 240)
    s.note(new)


def _midnight(s: _Session, old: str, new: str) -> None:
    s.time = s.time.replace(hour=23, minute=45)
    s.talk(1)
    s.say(old)
    s.wait(minutes=5)
    s.note(new)


def _time_zone(s: _Session, old: str, new: str) -> None:
    s.talk(1)
    s.note(old)
    s.time = s.time.astimezone(_WEST)
    s.say(new)


def _state_then_dialogue(s: _Session, old: str, new: str) -> None:
    s.note(old, STATUS)
    s.talk(2)
    s.say(new)


def _summary_then_state(s: _Session, old: str, new: str) -> None:
    s.say(old)
    s.talk()
    s.note(new, STATUS)


KINDS: dict[str, Callable[[_Session, str, str], None]] = {
    "control: no conflict, verbatim": _control_dialogue,
    "control: no conflict, in a summary": _control_summary,
    "dialogue's summary, then a note": _summary_then_note,
    "notes' summary, then dialogue": _note_summary_then_dialogue,
    "dialogue's summary, newer note in its span": _note_inside_the_span,
    "note, newer dialogue in a summary": _summary_is_newer,
    "same section: dialogue": _same_section,
    "same section: notes": _same_notes,
    "five seconds apart": _close,
    "over midnight": _midnight,
    "over a change of time zone": _time_zone,
    "state, then dialogue": _state_then_dialogue,
    "dialogue's summary, then a state": _summary_then_state,
}
"""How the older and the newer statement stand to each other."""


def conflicts(seeds: int) -> Iterator[Case]:
    """Yield the cases, a kind after the other for each seed, so that a run that is broken off has some of all."""
    for seed in range(seeds):
        for number, kind in enumerate(KINDS):
            chance = random.Random(f"conflict {seed} {kind}")
            subject = SIMPLE[(seed + number) % len(SIMPLE)]
            old, new = chance.sample(subject.values, 2)
            session = _Session(chance)
            KINDS[kind](session, subject.stated(old), subject.stated(new))
            session.wait()
            plain = kind.startswith("control")
            probe = Probe(
                "now",
                subject.question,
                session.time,
                (new,),
                () if plain else (old,),
                {"kind": kind, "subject": subject.name},
            )
            statements = tuple(subject.stated(value) for value in subject.values)
            yield Case(f"{kind}/{seed}", (*session.steps, probe), statements)


__all__ = ["KINDS", "conflicts"]
