# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What an eval is made of: what happens in a session, and what is asked of whoever remembers it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

NOTES = "notes"
"""The incremental topic of the sessions."""
STATUS = "status"
"""The summary topic of the sessions."""


@dataclass(frozen=True, slots=True)
class Said:
    """A completed exchange."""

    time: datetime
    request: str
    response: str


@dataclass(frozen=True, slots=True)
class Noted:
    """What another agent published on a topic."""

    time: datetime
    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class Probe:
    """One question, and what a right answer names."""

    name: str
    """Unique in its case."""
    question: str
    asked: datetime
    current: tuple[str, ...]
    """Values that hold now; a right answer names one of them. None of them: it was never said."""
    stale: tuple[str, ...] = ()
    """Values that once held, or that only somebody else wants to be held; a right answer names none."""
    tags: dict[str, str | int] = field(default_factory=dict)
    """What the results are grouped by."""
    answered: bool = True
    """The model is asked; else there is only a look at the prompt."""


Step: TypeAlias = Said | Noted | Probe


@dataclass(frozen=True, slots=True)
class Case:
    """A session: what happens, and the questions, in this order. A question leaves no trace in the session."""

    name: str
    """Unique in its eval."""
    steps: tuple[Step, ...]
    statements: tuple[str, ...] = ()
    """The sentences that an ideal summary keeps."""

    @property
    def topics(self) -> list[str]:
        """Return the topics that something is published on."""
        return sorted({step.topic for step in self.steps if isinstance(step, Noted)})

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Return its questions."""
        return tuple(step for step in self.steps if isinstance(step, Probe))


__all__ = ["NOTES", "STATUS", "Case", "Noted", "Probe", "Said", "Step"]
