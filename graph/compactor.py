# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Background compaction: which sections are due, and their jobs, fair among all participants."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from langchain_core.runnables import RunnableConfig

from xr_ai_conversation.graph.build import LiveGraph
from xr_ai_conversation.graph.ledger import Ledger
from xr_ai_conversation.graph.metrics import Metrics
from xr_ai_conversation.graph.participants import Participant, Participants
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.compaction import due, takeable
from xr_ai_conversation.state.context import ParticipantContext, empty, section
from xr_ai_conversation.state.prompt import views
from xr_ai_conversation.state.render import SectionView

_LOG = logging.getLogger(__name__)


class Compactor:
    """Starts a job for each section that is due, at most one for each; every job is a task of its participant.

    Args:
        graph: The live graph of the compact node.
        budgets: Of the sections.
        ledger: Where contexts are read and committed.
        participants: The records of the participants.
        metrics: Measure what comes of compactions.
    """

    def __init__(
        self,
        graph: LiveGraph,
        budgets: Budgets,
        ledger: Ledger,
        participants: Participants,
        metrics: Metrics,
    ) -> None:
        self._graph = graph
        self._budgets = budgets
        self._ledger = ledger
        self._participants = participants
        self._metrics = metrics
        self._closed = False

    def look_after(self, participant: Participant, context: ParticipantContext) -> None:
        """Start the compactions that are due, and log which sections have gone over their budgets.

        Args:
            participant: Whose.
            context: The participant's context now.
        """
        if self._closed or participant.clearing or context == empty():
            return
        participant.touched = True
        for topic, seen in views(context, self._budgets).items():
            self._warn(participant, topic, seen)
            found = section(context, topic)
            arrived = {entry["id"] for entry in found["entries"]} - participant.failed.get(topic, frozenset())
            if topic not in participant.jobs and arrived and due(context, topic, self._budgets):
                until = takeable(found, topic)[-1]["id"]
                job = self._participants.start(self._job(participant.id, topic, until), "compact a section")
                participant.jobs[topic] = job
                job.add_done_callback(partial(_leave, participant.jobs, topic))

    async def stop(self, *participants: Participant) -> None:
        """Cancel the compactions of participants and wait for them; what they have made is not committed."""
        jobs = [job for participant in participants for job in participant.jobs.values()]
        for participant in participants:
            participant.epoch += 1
        for job in jobs:
            job.cancel()
        if jobs:
            await asyncio.wait(jobs)

    async def close(self) -> None:
        """Stop all compactions, and start no more."""
        self._closed = True
        await self.stop(*self._participants.all())

    async def _job(self, participant_id: str, topic: str | None, until: str) -> None:
        """Compact a section up to an entry, in one request after the other."""
        with self._participants.using(participant_id) as participant:
            epoch, begun = participant.epoch, False
            try:
                while until:
                    until = await self._request(participant, topic, until, epoch, begun=begun)
                    begun = True
            except Exception as error:  # noqa: BLE001 - a store may raise anything; the entries stay
                self._failed(participant, topic, type(error).__name__)
            await self._look_again(participant, topic, epoch)

    async def _look_again(self, participant: Participant, topic: str | None, epoch: int) -> None:
        """End a job by looking at what came meanwhile, in a context to which nothing was added since it was read."""
        while epoch == participant.epoch:
            commits = participant.commits
            try:
                context = await self._ledger.read(participant)
            except Exception:  # noqa: BLE001 - the next touch that can read looks again
                participant.touched = False
                return
            if commits == participant.commits:
                participant.jobs.pop(topic, None)
                self.look_after(participant, context)
                return

    async def _request(
        self, participant: Participant, topic: str | None, until: str, epoch: int, *, begun: bool
    ) -> str:
        """Make one request and commit what comes of it; return up to where the next one is to go."""
        async with self._participants.turns, self._ledger.compacting(participant, topic):
            with self._metrics.compaction(topic) as measured:
                context = await self._ledger.read(participant)
                if not begun and not due(context, topic, self._budgets):
                    measured.outcome = "skipped"  # another process has done it meanwhile
                    return ""
                participant.failed[topic] = frozenset(
                    entry["id"] for entry in section(context, topic)["entries"]
                )
                config: RunnableConfig = {
                    "run_name": "compaction",
                    "metadata": {"participant_id": participant.id, "section": _name(topic)},
                }
                result = await self._graph.ainvoke(
                    {"context": context, "topic": topic, "until": until}, config
                )
                if result["rejected"]:
                    measured.reason = result["rejected"]
                    self._failed(participant, topic, result["rejected"])
                    return ""
                await self._ledger.commit(participant, "compact", result["context"], epoch)
                measured.made = next(iter(result["context"]), None)
                measured.outcome = "done" if measured.made else "skipped"
        participant.failed.pop(topic, None)
        participant.failures.pop(topic, None)
        return str(result["until"])

    def _failed(self, participant: Participant, topic: str | None, reason: str) -> None:
        participant.failures[topic] = participant.failures.get(topic, 0) + 1
        fields = {
            "participant_id": participant.id,
            "section": _name(topic),
            "reason": reason,
            "failures": participant.failures[topic],
        }
        _LOG.warning(
            "participant %(participant_id)r: compaction of %(section)s changed nothing (%(reason)s), %(failures)d times "
            "in a row; its entries are kept and it is tried again after the next one",
            fields,
            extra=fields,
        )

    def _warn(self, participant: Participant, topic: str | None, seen: SectionView) -> None:
        if not seen.left_out and not seen.clipped:
            participant.warned.discard(topic)
        elif topic not in participant.warned:
            participant.warned.add(topic)
            fields = {
                "participant_id": participant.id,
                "section": _name(topic),
                "budget_bytes": self._budgets.of_section(topic),
                "left_out": seen.left_out,
                "clipped": seen.clipped,
            }
            _LOG.warning(
                "participant %(participant_id)r: %(section)s exceeds its budget of %(budget_bytes)d bytes while "
                "compaction is pending; the prompt leaves out %(left_out)d of its entries and cuts %(clipped)d",
                fields,
                extra=fields,
            )


def _leave(jobs: dict[str | None, asyncio.Task[None]], topic: str | None, job: asyncio.Task[None]) -> None:
    """Take a job that is over out of its participant's; one that never began could not do so itself."""
    if jobs.get(topic) is job:
        del jobs[topic]


def _name(topic: str | None) -> str:
    return "the dialogue" if topic is None else f"topic {topic!r}"


__all__ = ["Compactor"]
