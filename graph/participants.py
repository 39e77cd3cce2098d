# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What this process holds of each participant while it serves them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field

from xr_ai_conversation.state.context import ParticipantContext
from xr_ai_conversation.state.text import clean, size

LONGEST_ID = 512
"""UTF-8 bytes of the longest participant id."""

_CONCURRENT_COMPACTIONS = 4
_IDLE_RECORDS = 1_000


@dataclass(slots=True)
class Participant:
    """The record of one participant; nothing of it outlives the process."""

    id: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held for the length of a commit, never across a model call."""
    context: ParticipantContext | None = None
    """The context, where the manager owns the store; None if it is empty, or the store is to be read."""
    checkpoint_id: str = ""
    """The checkpoint that holds it; empty if there is none."""
    users: int = 0
    """How many calls are using this record."""
    epoch: int = 0
    """Counts the clearings; what was begun before one is not committed after it."""
    clearing: int = 0
    """How many clearings are under way; meanwhile no compaction is started."""
    touched: bool = False
    """Something is known of the participant, and it has been looked at whether compaction is due."""
    commits: int = 0
    """How many commits were made; each so many, the thread is pruned."""
    jobs: dict[str | None, asyncio.Task[None]] = field(default_factory=dict)
    """The running compaction of each section; None is the dialogue."""
    failed: dict[str | None, frozenset[str]] = field(default_factory=dict)
    """Ids of the entries that were there when the last request of a section was begun, unless it succeeded."""
    failures: dict[str | None, int] = field(default_factory=dict)
    """How many compactions of a section failed in a row."""
    warned: set[str | None] = field(default_factory=set)
    """Sections of which it was logged that they are over their budgets."""

    def reset(self) -> None:
        """Forget what was known of the participant."""
        self.context = None
        self.checkpoint_id = ""
        self.touched = False
        self.failed.clear()
        self.failures.clear()
        self.warned.clear()


class Participants:
    """The records of all participants, and what else is bound to the event loop that serves them.

    Args:
        forgetful: Drop the records that have not been used for longest; what they hold can be had from the store, and
            marks of failed compactions, without which a section is only tried once more.
    """

    def __init__(self, *, forgetful: bool) -> None:
        self._forgetful = forgetful
        self._idle: dict[str, None] = {}
        """Ids of the records that nobody uses, the one that was used last at the end."""
        self.turns = asyncio.Semaphore(_CONCURRENT_COMPACTIONS)
        """Bounds the compaction requests that run at once; it is fair."""
        self._records: dict[str, Participant] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def using(self, participant_id: str) -> Iterator[Participant]:
        """Hold a participant's record while a call uses it; it goes when nobody does and nothing is known.

        Raises:
            RuntimeError: The manager is in use in another event loop.
            TypeError: The id is no string.
            ValueError: The id is empty, too long, or cannot be stored.
        """
        check_participant_id(participant_id)
        self.enter_loop()
        participant = self._records.setdefault(participant_id, Participant(participant_id))
        participant.users += 1
        self._idle.pop(participant_id, None)
        try:
            yield participant
        finally:
            participant.users -= 1
            if participant.users == 0:
                self._leave(participant)

    def _leave(self, participant: Participant) -> None:
        if not participant.touched and participant.context is None:
            self._records.pop(participant.id, None)
            return
        if self._forgetful:
            self._idle[participant.id] = None
            if len(self._idle) > _IDLE_RECORDS:
                longest = next(iter(self._idle))
                del self._idle[longest], self._records[longest]

    def all(self) -> tuple[Participant, ...]:
        """Return all records."""
        return tuple(self._records.values())

    def jobs(self, participant_id: str | None) -> tuple[asyncio.Task[None], ...]:
        """Return the running compactions of a participant, or of all for None."""
        if participant_id is None:
            return tuple(job for participant in self.all() for job in participant.jobs.values())
        found = self._records.get(participant_id)
        return tuple(found.jobs.values()) if found else ()

    def start(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """Start background work; it sees nothing of the graph run that happened to start it."""
        chore = asyncio.get_running_loop().create_task(work, name=name, context=Context())
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)
        return chore

    async def finished(self) -> None:
        """Return when no background work is left."""
        while self._chores:
            await asyncio.wait(tuple(self._chores))

    def enter_loop(self) -> None:
        """Forget the locks and the work of an event loop that is gone.

        Raises:
            RuntimeError: The loop that was served before is still running, or may go on with an unfinished call.
        """
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and (self._loop.is_running() or self._suspended()):
            raise RuntimeError(
                "a ContextManager serves one event loop at a time, and is in use in another one"
            )
        self._loop = loop
        self.turns = asyncio.Semaphore(_CONCURRENT_COMPACTIONS)
        self._chores.clear()
        for participant in self.all():
            participant.lock = asyncio.Lock()
            participant.jobs.clear()
            participant.failed.clear()
            participant.touched = False

    def _suspended(self) -> bool:
        """Tell whether the loop that was served before may go on with a call that it has left unfinished."""
        open_still = self._loop is not None and not self._loop.is_closed()
        return open_still and any(participant.users for participant in self.all())


def check_participant_id(participant_id: str) -> None:
    """Refuse what cannot be the id of a participant: any string of 1 to `LONGEST_ID` bytes can.

    Raises:
        TypeError: It is no string.
        ValueError: It is empty, too long, or cannot be stored.
    """
    if not isinstance(participant_id, str):
        raise TypeError(f"participant_id must be a string, got {type(participant_id).__name__}")
    if not participant_id or size(clean(participant_id)) > LONGEST_ID:
        raise ValueError(
            f"participant_id must have 1 to {LONGEST_ID} bytes, got {size(clean(participant_id))} bytes"
        )
    if "\0" in participant_id or clean(participant_id) != participant_id:
        raise ValueError(
            f"participant_id must be without NUL and lone surrogates, which no store can hold, got {participant_id!r}"
        )


__all__ = ["LONGEST_ID", "Participant", "Participants", "check_participant_id"]
