# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Where contexts are read and committed: one short commit at a time for each participant."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from dataclasses import dataclass
from datetime import datetime

from langgraph.checkpoint.memory import InMemorySaver
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from xr_ai_conversation.graph.build import NodeName, WholeGraph, new_id
from xr_ai_conversation.graph.history import Kept, kept
from xr_ai_conversation.graph.participants import Participant, Participants
from xr_ai_conversation.graph.stores import (
    Channel,
    Head,
    Saver,
    first_id,
    reading,
    sort_after,
    store_of,
    thread,
)
from xr_ai_conversation.graph.tasks import unbroken
from xr_ai_conversation.state.context import (
    Archive,
    ContextSchemaError,
    ParticipantContext,
    empty,
    holds,
    load,
    load_archive,
    with_archived,
)
from xr_ai_conversation.state.identity import LENGTH
from xr_ai_conversation.state.operations import Operation, adds_to, archive, decided, fold

_LOG = logging.getLogger(__name__)

_COMMITS_BETWEEN_PRUNINGS = 10
"""Fewer where fewer checkpoints are kept: whoever keeps one wants no other."""
_NOT_ARCHIVED = 256
"""Identities in a context from which on the next commit leaves them to the archive: 4 KB."""
_ARCHIVES_HELD = 100
_PAUSES = wait_random_exponential(multiplier=0.1, max=1)
_PATIENCE = stop_after_delay(5)
"""A store that is away for longer is an error to whoever waits for the commit."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was known of a participant at one moment."""

    context: ParticipantContext
    """Plain JSON that is not to be changed."""
    checkpoint_id: str
    """The checkpoint that holds the context; empty if nothing is stored."""
    window: str = ""
    """What the ids of exchanges begin with that are in the context and not in the checkpoint; empty if none are."""


class Ledger:
    """Reads and changes the contexts of participants through the durable graph.

    Two overlapping runs on one LangGraph thread lose the writes of one of them without a word. So all changes are
    short commits of operations, one at a time for each participant, and no model is called in one.

    Args:
        graph: The whole graph; it is compiled with the saver.
        saver: An asynchronous LangGraph saver; None keeps contexts in memory.
        history: How many checkpoints of a thread are kept.
        participants: The records of the participants.
        changed: Called with a participant and its new context after each commit.
    """

    def __init__(
        self,
        graph: WholeGraph,
        saver: Saver | None,
        history: int,
        participants: Participants,
        changed: Callable[[Participant, ParticipantContext], None],
    ) -> None:
        self._owns_store = saver is None
        self._store = store_of(saver or InMemorySaver())
        self._durable = graph.compile(checkpointer=self._store.saver, name="conversation")
        self._history = history
        self._participants = participants
        self._changed = changed
        self._archives: dict[str, Archive] = {}
        """Those that were read last, the last one at the end; one may have grown since, or be gone."""
        self._closed = False

    async def read(self, participant: Participant) -> ParticipantContext:
        """Return a participant's context as stored.

        Raises:
            ContextSchemaError: It is damaged, or of a newer version.
        """
        return (await self.snapshot(participant)).context

    async def snapshot(self, participant: Participant) -> Snapshot:
        """Return a participant's context as stored, and where that is; errors are those of `read`."""
        if self._owns_store:
            return Snapshot(participant.context or empty(), participant.checkpoint_id)
        head = await self._head(participant)
        return Snapshot(_loaded(participant, head), head.checkpoint_id or "")

    async def with_identities(
        self, participant: Participant, context: ParticipantContext
    ) -> ParticipantContext:
        """Return a participant's context with all identities in it; a newer one if it was cleared meanwhile.

        Args:
            participant: Whose.
            context: As it was read.

        Raises:
            ContextSchemaError: The archive, or a newer context, is damaged.
        """
        archived = context["archived"]
        if archived is None:
            return context
        try:
            found = self._archives.pop(participant.id, None)
            if found is None or not holds(found, archived):
                stored = (await self._head(participant, "archive")).value
                with reading(participant.id):
                    found = load_archive(stored)
            self._archives[participant.id] = found
            if len(self._archives) > _ARCHIVES_HELD:
                del self._archives[next(iter(self._archives))]
            with reading(participant.id):
                return with_archived(context, found)
        except ContextSchemaError:
            now = await self.read(participant)
            if now["archived"] == archived:
                raise
            return await self.with_identities(participant, now)

    async def checkpoints(self, participant: Participant) -> list[Kept]:
        """Return the checkpoints of a participant that are kept, oldest first; errors are those of `read`."""
        with reading(participant.id):
            return [kept(each) for each in await self._store.checkpoints(participant.id)]

    async def _head(self, participant: Participant, channel: Channel = "context") -> Head:
        with reading(participant.id):
            return await self._store.head(participant.id, channel)

    async def commit(
        self,
        participant: Participant,
        node: NodeName,
        operations: Sequence[Operation],
        epoch: int | None = None,
        since: datetime | None = None,
    ) -> None:
        """Fold operations into a participant's context; durable on return, whole even if cancelled meanwhile.

        Nothing is written if they change nothing, and after `close`.

        Args:
            participant: Whose.
            node: The node that the operations are of, which the history shows.
            operations: What to do.
            epoch: Drop the operations if the participant was cleared since this epoch; None keeps them.
            since: Forget first what is stored if nothing was since this time; None keeps it.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
        """
        await unbroken(self._commit(participant, node, operations, epoch, since), f"commit of {node}")

    async def _commit(
        self,
        participant: Participant,
        node: NodeName,
        operations: Sequence[Operation],
        epoch: int | None,
        since: datetime | None,
    ) -> None:
        async with participant.lock:
            if self._closed or (epoch is not None and epoch != participant.epoch):
                return
            async for attempt in self._attempts():
                with attempt:
                    if since is not None:
                        await self._forget_idle(participant, since)
                    again = attempt.retry_state.attempt_number > 1
                    changed = await self._write(participant, node, operations, again)
            if changed is None:
                return
            participant.commits += 1
        if (participant.commits - 1) % min(self._history, _COMMITS_BETWEEN_PRUNINGS) == 0:
            self._participants.start(self._prune(participant.id), "prune a thread")
        self._changed(participant, changed)

    def _attempts(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception(self._store.passing), wait=_PAUSES, stop=_PATIENCE, reraise=True
        )

    async def _write(
        self, participant: Participant, node: NodeName, operations: Sequence[Operation], again: bool
    ) -> ParticipantContext | None:
        """Return the changed context; None if nothing is to be changed.

        Tried again it changes nothing that a lost answer of the store had left in doubt, even if what was written has
        been compacted since.
        """
        async with self._store.exclusive(participant.id) as saver:
            context = await self._current(participant)
            if again and any(
                adds_to(each.context, operations) for each in await self.checkpoints(participant)
            ):
                return context
            known = await self.with_identities(participant, context)
            operations = decided(known, operations)
            changed = fold(context, operations)
            if changed == context:
                return None
            if len(context["identities"]) >= _NOT_ARCHIVED * LENGTH:
                operations = [await self._archive(participant, context, known, saver), *operations]
                changed = fold(context, operations)
            durable = copy(self._durable)
            durable.checkpointer = saver
            values = {"context": operations}
            written = await durable.aupdate_state(thread(participant.id), values, as_node=node)
            if self._owns_store:
                participant.context = changed
                participant.checkpoint_id = written["configurable"]["checkpoint_id"]
            return changed

    async def _archive(
        self, participant: Participant, context: ParticipantContext, known: ParticipantContext, saver: Saver
    ) -> Operation:
        """Store all identities in the archive, and return the operation that takes them out of the context.

        Should the commit of that fail, the archive holds more than what is referred to, which does no harm.
        """
        before = await self._head(participant, "archive")
        # one that a failed commit left, by another host's clock, may be newer than the context
        sort_after(before.checkpoint_id)
        archived = context["archived"]
        grown, operation = archive(known, archived["id"] if archived else new_id())
        await self._store.put_archive(participant.id, grown, before, saver)
        return operation

    async def _current(self, participant: Participant) -> ParticipantContext:
        """Return the context to be changed, whose next checkpoint will sort after it."""
        if self._owns_store:
            return participant.context or empty()
        head = await self._head(participant)
        sort_after(head.checkpoint_id)
        return _loaded(participant, head)

    def compacting(self, participant: Participant, topic: str | None) -> AbstractAsyncContextManager[None]:
        """Keep other processes from asking for a summary of a section meanwhile."""
        return self._store.compacting(participant.id, topic)

    async def forget(self, participant: Participant) -> None:
        """Delete all that is stored of a participant."""
        async with participant.lock:
            async for attempt in self._attempts():
                with attempt:
                    async with self._store.exclusive(participant.id) as saver:
                        await self._store.forget(participant.id, saver)
            self._forgotten(participant)
        if self._closed:
            await self._store.close()

    async def forget_idle(self, participant: Participant, since: datetime | None) -> bool:
        """Delete all that is stored of a participant if nothing was since a time, and tell whether that was so.

        It goes to its end if it is cancelled. None is no time, before which everybody was busy.
        """

        async def forget(since: datetime) -> bool:
            async with participant.lock:
                return not self._closed and await self._forget_idle(participant, since)

        return since is not None and await unbroken(forget(since), "expire a participant")

    async def _forget_idle(self, participant: Participant, since: datetime) -> bool:
        async with self._store.exclusive(participant.id) as saver:
            head = await self._head(participant)
            # a thread without a context of ours is of another graph on the same saver
            ours = isinstance(head.value, dict) and "schema_version" in head.value
            if participant.jobs or not ours or (head.checkpoint_id or "") >= first_id(since):
                return False
            await self._store.forget(participant.id, saver)
            self._forgotten(participant)
            return True

    def _forgotten(self, participant: Participant) -> None:
        self._archives.pop(participant.id, None)
        participant.reset()

    async def idle(self, since: datetime) -> list[str]:
        """Return the ids of those of whom nothing was stored since a time, if the saver is of a kind that can tell."""
        return await self._store.idle(since)

    async def _prune(self, participant_id: str) -> None:
        with self._participants.using(participant_id) as participant:
            try:
                async with participant.lock:
                    await self._store.prune(participant_id, self._history)
            except Exception as error:  # noqa: BLE001 - what is left over goes with the next pruning
                fields = {"participant_id": participant_id, "error": type(error).__name__}
                _LOG.warning(
                    "participant %(participant_id)r: old checkpoints were not pruned (%(error)s)",
                    fields,
                    extra=fields,
                )

    def seal(self) -> None:
        """Drop all commits that are not under way yet."""
        self._closed = True

    async def close(self) -> None:
        """Let the running commits end, and drop all later ones; what is stored stays."""
        self.seal()
        for participant in self._participants.all():
            async with participant.lock:
                participant.reset()
        await self._participants.finished()
        await self._store.close()


def _loaded(participant: Participant, head: Head) -> ParticipantContext:
    with reading(participant.id):
        if head.checkpoint_id is not None and head.value is None:
            raise ContextSchemaError(
                "the thread of that id in this store is of another graph; give the context manager a store of its own, "
                "or the other graph other thread ids"
            )
        return load(head.value)


__all__ = ["Ledger", "Snapshot"]
