# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The context manager: what is remembered of each participant, kept within its budgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Protocol, Self

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.memory import InMemorySaver

from xr_ai_conversation.graph.build import NodeName, live_graph, new_id, system_clock, whole_graph
from xr_ai_conversation.graph.stores import Saver, sort_after, store_of, thread
from xr_ai_conversation.graph.tasks import unbroken
from xr_ai_conversation.nodes.compact import compact_node
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.compaction import CompactionPrompts, due, takeable
from xr_ai_conversation.state.context import (
    ContextSchemaError,
    ParticipantContext,
    empty,
    load,
    section,
)
from xr_ai_conversation.state.identity import identity
from xr_ai_conversation.state.operations import Operation, PastExchange, fold, record, update
from xr_ai_conversation.state.prompt import blocks, views
from xr_ai_conversation.state.render import ContextBlock
from xr_ai_conversation.state.text import clean, size, visible
from xr_ai_conversation.state.times import stamp

_LOG = logging.getLogger(__name__)

LONGEST_ID = 512
"""UTF-8 bytes of the longest participant id."""

_CONCURRENT_COMPACTIONS = 4
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMMITS_BETWEEN_PRUNINGS = 10


class CompletedExchange(Protocol):
    """One exchange of a router's completed history, as `xr.AgentExchange` is one."""

    @property
    def request(self) -> str:
        """What the participant said."""

    @property
    def response(self) -> str | None:
        """What was answered, or None."""

    @property
    def timestamp_us(self) -> int | None:
        """Unix microseconds, or None."""

    @property
    def turn_id(self) -> str | None:
        """The id of its turn, or None."""


@dataclass(slots=True)
class _Participant:
    """What this process holds of one participant."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held for the length of a commit, never across a model call."""
    context: ParticipantContext | None = None
    """The context, where the manager owns the store; None if it is empty or the store is to be read."""
    users: int = 0
    """How many calls are using this record."""
    epoch: int = 0
    """Counts the clearings; what was begun before one is not committed after it."""
    clearing: int = 0
    """How many clearings are under way; meanwhile no compaction is started."""
    touched: bool = False
    """It has been looked at whether compaction is due."""
    commits: int = 0
    jobs: dict[str | None, asyncio.Task[None]] = field(default_factory=dict)
    """The running compaction of each section; None is the dialogue."""
    failed: dict[str | None, frozenset[str]] = field(default_factory=dict)
    """Ids of the entries that were there when the last compaction of a section failed."""
    failures: dict[str | None, int] = field(default_factory=dict)
    """How many compactions of a section failed in a row."""
    warned: set[str | None] = field(default_factory=set)
    """Sections whose being over budget has been logged."""


class ContextManager:
    """Keeps what each participant said, the answers, and what is published about them, within byte budgets.

    Any number of answers, updates, records and clearings of a participant may go on at once. Its methods never
    wait for a model; compaction runs in the background. Several conversations may share one manager.

    Args:
        llm: The chat model that summarises.
        summary_context_topics: Names of the topics whose updates replace their state.
        incremental_context_topics: Names of the topics whose updates append and are compacted.
        dialogue_budget_bytes: UTF-8 bytes that completed dialogue may take in a prompt.
        topic_budget_bytes: The same of each topic, or a mapping with a value for every configured topic.
        compaction_input_budget_bytes: UTF-8 bytes of the records in one compaction request; at least half of
            the largest section budget and 256.
        prompts: What the model is told to keep when it compacts.
        checkpointer: An asynchronous LangGraph saver; the thread of a participant is its id. None keeps the
            context in memory.
        clock: Returns the current time, with its zone, in which times are shown; None is the system's clock in
            the local zone.
        history: How many checkpoints of each participant are kept for inspection.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: Topics, budgets or history cannot be; the message says which, and what is allowed.
    """

    def __init__(
        self,
        llm: BaseChatModel,
        *,
        summary_context_topics: Iterable[str] = (),
        incremental_context_topics: Iterable[str] = (),
        dialogue_budget_bytes: int = 8_000,
        topic_budget_bytes: int | Mapping[str, int] = 4_000,
        compaction_input_budget_bytes: int = 12_000,
        prompts: CompactionPrompts = CompactionPrompts(),  # noqa: B008 - it is frozen
        checkpointer: Saver | None = None,
        clock: Callable[[], datetime] | None = None,
        history: int = 50,
    ) -> None:
        if history < 1:
            raise ValueError(f"history must be at least 1 checkpoint, got {history}")
        self.budgets = Budgets.of(
            summary_topics=summary_context_topics,
            incremental_topics=incremental_context_topics,
            dialogue_bytes=dialogue_budget_bytes,
            topic_bytes=topic_budget_bytes,
            compaction_input_bytes=compaction_input_budget_bytes,
        )
        self.clock = clock or system_clock
        self._history = history
        self._owns_store = checkpointer is None
        self._store = store_of(checkpointer or InMemorySaver())
        self._durable = whole_graph(llm, "", self.budgets, prompts, self.clock).compile(
            checkpointer=self._store.saver
        )
        self._compaction = live_graph("compact", compact_node(llm, self.budgets, prompts, new_id))
        self._participants: dict[str, _Participant] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns = asyncio.Semaphore(_CONCURRENT_COMPACTIONS)
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def blocks(self, participant_id: str) -> tuple[ContextBlock, ...]:
        """Return what a prompt shows of a participant's context, in prompt order.

        Args:
            participant_id: Any string of 1 to `LONGEST_ID` bytes.

        Returns:
            Empty if nothing is known, and after `close`.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
            ValueError: The id is empty, too long, or cannot be stored.
        """
        return blocks(await self.snapshot(participant_id), self.budgets)

    async def snapshot(self, participant_id: str) -> ParticipantContext:
        """Return a participant's context as it is now, as plain JSON that is not to be changed.

        Args and errors are those of `blocks`.
        """
        with self._using(participant_id) as participant:
            if self._closed:
                return empty()
            context = await self._read(participant_id, participant)
            if not participant.touched:
                self._look_after(participant_id, participant, context)
            return context

    async def record_exchange(
        self,
        participant_id: str,
        request: str,
        response: str,
        *,
        turn_id: str | None = None,
        timestamp: datetime | None = None,
    ) -> None:
        """Record a completed exchange; it is durable when this returns. After `close` it is dropped.

        A turn id that is recorded with the same words already is the same exchange, and not added again.

        Args:
            participant_id: Any string of 1 to `LONGEST_ID` bytes.
            request: What the participant said; may be empty.
            response: What was answered.
            turn_id: The id of the turn, where there is one.
            timestamp: When it was said; without a zone it is taken as of the clock's. None is now.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
            TypeError: The timestamp is no datetime.
            ValueError: The id cannot be, or the response is blank.
        """
        if not visible(response):
            raise ValueError(f"response must not be blank, got {len(response)} blank characters")
        operation = record(
            {
                "id": new_id(),
                "time": self._stamp(timestamp),
                "request": clean(request),
                "response": clean(response),
            },
            turn_id,
        )
        await self._commit(participant_id, "record", operation)

    async def update(
        self, participant_id: str, topic: str, text: str, *, timestamp: datetime | None = None
    ) -> None:
        """Take in what was published on a topic; it is durable when this returns. After `close` it is dropped.

        Args:
            participant_id: Any string of 1 to `LONGEST_ID` bytes.
            topic: The name of a configured topic: an incremental one appends, a summary one replaces its state.
            text: What was published.
            timestamp: When; without a zone it is taken as of the clock's. None is now.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
            TypeError: The timestamp is no datetime.
            ValueError: The id cannot be, the topic is not configured, or the text is blank.
        """
        operation = update(self.budgets, new_id(), self._stamp(timestamp), topic, text)
        await self._commit(participant_id, "update", operation)

    async def reconcile(self, participant_id: str, exchanges: Sequence[CompletedExchange]) -> None:
        """Add what is new in a router's window of completed history. After `close` it is dropped.

        The longest end of what is known that begins the window is known, also when it was compacted; the rest
        is new. Exchanges are the same if their words are, and their turn ids where both have one. A repeat of the
        same words that is wholly hidden in an equal window, without turn ids, cannot be told from a replay and
        counts as known. Let one router-driven writer record per manager: a window in which the exchanges of
        two writers interleave does not match, and is recorded again.

        Args:
            participant_id: Any string of 1 to `LONGEST_ID` bytes.
            exchanges: Completed exchanges, oldest first; those without a response are left out.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
            ValueError: The id cannot be.
        """
        window = [self._past(exchange) for exchange in exchanges if visible(exchange.response or "")]
        await self._commit(
            participant_id, "record", {"op": "reconcile", "window": window, "now": self._stamp(None)}
        )

    async def settled(self, participant_id: str | None = None) -> None:
        """Return when no compaction is running or due now.

        Args:
            participant_id: Whose; None is all whom this manager has touched.
        """
        if participant_id is not None:
            await self.snapshot(participant_id)
        while True:
            mine = self._participants.values() if participant_id is None else self._present(participant_id)
            jobs = [job for participant in mine for job in participant.jobs.values()]
            if not jobs:
                return
            await asyncio.wait(jobs)

    async def clear(self, participant_id: str) -> None:
        """Forget everything of a participant, in the store as well.

        Its running compactions are cancelled and awaited; an answer that is still streaming is not, and records
        its exchange as the start of a new context. Clearing twice is clearing once.

        Args:
            participant_id: Any string of 1 to `LONGEST_ID` bytes.

        Raises:
            ValueError: The id cannot be.
        """
        with self._using(participant_id) as participant:
            participant.clearing += 1
            try:
                await self._stop(participant)
                await unbroken(self._forget(participant_id, participant), "forget a participant")
            finally:
                participant.clearing -= 1

    async def close(self) -> None:
        """Stop all compactions and drop what comes later; what is stored stays. Closing twice is closing once."""
        self._enter_loop()
        self._closed = True
        for participant in list(self._participants.values()):
            await self._stop(participant)
        while self._chores:
            await asyncio.wait(set(self._chores))
        for participant in list(self._participants.values()):
            async with participant.lock:
                participant.context = None
        self._participants.clear()
        await self._store.close()

    def _present(self, participant_id: str) -> tuple[_Participant, ...]:
        found = self._participants.get(participant_id)
        return (found,) if found else ()

    @contextmanager
    def _using(self, participant_id: str) -> Iterator[_Participant]:
        """Hold a participant's record while a call uses it; it goes when nobody does and nothing is known."""
        _check_id(participant_id)
        self._enter_loop()
        participant = self._participants.setdefault(participant_id, _Participant())
        participant.users += 1
        try:
            yield participant
        finally:
            participant.users -= 1
            if participant.users == 0 and not participant.touched:
                self._participants.pop(participant_id, None)

    def _enter_loop(self) -> None:
        """Forget the locks and jobs of an event loop that is gone."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and self._loop.is_running():
            raise RuntimeError(
                "a ContextManager serves one event loop at a time, it is in use in another one"
            )
        self._loop = loop
        self._turns = asyncio.Semaphore(_CONCURRENT_COMPACTIONS)
        self._chores.clear()
        for participant in self._participants.values():
            participant.lock = asyncio.Lock()
            participant.jobs.clear()
            participant.touched = False

    def _stamp(self, timestamp: datetime | None) -> str:
        if timestamp is None:
            return stamp(self.clock())
        if not isinstance(timestamp, datetime):
            raise TypeError(f"timestamp must be a datetime or None, got {type(timestamp).__name__}")
        if self.clock is system_clock:
            return stamp(timestamp.astimezone())
        zone = self.clock().tzinfo
        return stamp((timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=zone)).astimezone(zone))

    def _past(self, exchange: CompletedExchange) -> PastExchange:
        request, response = clean(exchange.request), clean(exchange.response or "")
        past: PastExchange = {
            "id": new_id(),
            "request": request,
            "response": response,
            "identity": identity(request, response, exchange.turn_id),
        }
        if exchange.timestamp_us is not None:
            past["time"] = self._stamp(_EPOCH + timedelta(microseconds=exchange.timestamp_us))
        return past

    async def _read(self, participant_id: str, participant: _Participant) -> ParticipantContext:
        if self._owns_store:
            return participant.context or empty()
        return self._load(participant_id, (await self._store.head(participant_id)).context)

    def _load(self, participant_id: str, stored: object) -> ParticipantContext:
        try:
            return load(stored)
        except ContextSchemaError as error:
            raise ContextSchemaError(f"participant {participant_id!r}: {error}") from None

    async def _commit(self, participant_id: str, node: NodeName, *operations: Operation) -> None:
        with self._using(participant_id) as participant:
            await unbroken(
                self._commit_now(participant_id, participant, node, operations, None), f"{node} a commit"
            )

    async def _commit_now(
        self,
        participant_id: str,
        participant: _Participant,
        node: NodeName,
        operations: Sequence[Operation],
        epoch: int | None,
    ) -> None:
        """Fold operations into the stored context; nothing is written if they change nothing.

        Args:
            participant_id: Whose.
            participant: The record of that id.
            node: The node that the operations are of, for the history.
            operations: What to do.
            epoch: Drop the operations if the participant was cleared since this epoch; None is never.
        """
        async with participant.lock:
            if self._closed or (epoch is not None and epoch != participant.epoch):
                return
            async with self._store.exclusive(participant_id):
                context = await self._current(participant_id, participant)
                changed = fold(context, operations)
                if changed == context:
                    return
                await self._durable.aupdate_state(
                    thread(participant_id), {"context": list(operations)}, as_node=node
                )
            if self._owns_store:
                participant.context = changed
        participant.commits += 1
        if participant.commits % _COMMITS_BETWEEN_PRUNINGS == 0:
            chore = asyncio.get_running_loop().create_task(
                self._prune(participant_id), name="prune a participant", context=Context()
            )
            self._chores.add(chore)
            chore.add_done_callback(self._chores.discard)
        self._look_after(participant_id, participant, changed)

    async def _current(self, participant_id: str, participant: _Participant) -> ParticipantContext:
        """Return the context to be changed; the next checkpoint will sort after it."""
        if self._owns_store:
            return participant.context or empty()
        head = await self._store.head(participant_id)
        sort_after(head)
        return self._load(participant_id, head.context)

    def _look_after(
        self, participant_id: str, participant: _Participant, context: ParticipantContext
    ) -> None:
        """Start the compactions that are due, and log which sections are over their budgets."""
        if self._closed or participant.clearing or context == empty():
            return
        participant.touched = True
        for topic, seen in views(context, self.budgets).items():
            if not seen.left_out and not seen.clipped:
                participant.warned.discard(topic)
            elif topic not in participant.warned:
                participant.warned.add(topic)
                _LOG.warning(
                    "participant %r: %s exceeds its budget of %d bytes while compaction is pending; the prompt "
                    "leaves out %d of its entries and cuts %d",
                    participant_id,
                    _name(topic),
                    self.budgets.of_section(topic),
                    seen.left_out,
                    seen.clipped,
                )
            ids = {entry["id"] for entry in section(context, topic)["entries"]}
            if (
                topic not in participant.jobs
                and ids - participant.failed.get(topic, frozenset())
                and due(context, topic, self.budgets)
            ):
                until = takeable(section(context, topic), topic)[-1]["id"]
                participant.jobs[topic] = asyncio.get_running_loop().create_task(
                    self._compact(participant_id, topic, until), name="compact a section", context=Context()
                )

    async def _compact(self, participant_id: str, topic: str | None, until: str) -> None:
        """Compact a section up to an entry, one request after the other; other participants come in between."""
        with self._using(participant_id) as participant:
            epoch, ids = participant.epoch, frozenset[str]()
            try:
                while until:
                    async with self._turns:
                        context = await self._read(participant_id, participant)
                        ids = frozenset(entry["id"] for entry in section(context, topic)["entries"])
                        result = await self._compaction.ainvoke(
                            {"context": context, "topic": topic, "until": until}
                        )
                    if result["rejected"]:
                        self._failed(participant_id, participant, topic, ids, result["rejected"])
                        break
                    await unbroken(
                        self._commit_now(participant_id, participant, "compact", result["context"], epoch),
                        "commit a compaction",
                    )
                    participant.failed.pop(topic, None)
                    participant.failures.pop(topic, None)
                    until = result["until"] if epoch == participant.epoch else ""
                context = await self._read(participant_id, participant)
            except Exception as error:  # noqa: BLE001 - a store may raise anything; the entries stay, and are tried again
                self._failed(participant_id, participant, topic, ids, type(error).__name__)
                return
            finally:
                participant.jobs.pop(topic, None)
            if epoch == participant.epoch:
                self._look_after(participant_id, participant, context)

    def _failed(
        self,
        participant_id: str,
        participant: _Participant,
        topic: str | None,
        ids: frozenset[str],
        reason: str,
    ) -> None:
        participant.failed[topic] = ids
        participant.failures[topic] = participant.failures.get(topic, 0) + 1
        _LOG.warning(
            "participant %r: compaction of %s changed nothing (%s), %d times in a row; its %d entries are kept "
            "and it is tried again after the next one",
            participant_id,
            _name(topic),
            reason,
            participant.failures[topic],
            len(ids),
        )

    async def _stop(self, participant: _Participant) -> None:
        """Cancel the running compactions of a participant and wait for them; what they made is not committed."""
        participant.epoch += 1
        if jobs := tuple(participant.jobs.values()):
            for job in jobs:
                job.cancel()
            await asyncio.wait(jobs)

    async def _forget(self, participant_id: str, participant: _Participant) -> None:
        async with participant.lock, self._store.exclusive(participant_id):
            await self._store.forget(participant_id)
            participant.context = None
            participant.touched = False
            participant.failed.clear()
            participant.failures.clear()
            participant.warned.clear()

    async def _prune(self, participant_id: str) -> None:
        with self._using(participant_id) as participant:
            try:
                async with participant.lock:
                    await self._store.prune(participant_id, self._history)
            except Exception as error:  # noqa: BLE001 - what is left over goes with the next pruning
                _LOG.warning(
                    "participant %r: old checkpoints were not pruned (%s)",
                    participant_id,
                    type(error).__name__,
                )


def _name(topic: str | None) -> str:
    return "the dialogue" if topic is None else f"topic {topic!r}"


def _check_id(participant_id: str) -> None:
    if not isinstance(participant_id, str):
        raise TypeError(f"participant_id must be a string, got {type(participant_id).__name__}")
    if not participant_id or "\0" in participant_id or clean(participant_id) != participant_id:
        raise ValueError(
            f"participant_id must be of 1 to {LONGEST_ID} bytes without NUL or lone surrogates, got {participant_id!r}"
        )
    if size(participant_id) > LONGEST_ID:
        raise ValueError(
            f"participant_id must be of 1 to {LONGEST_ID} bytes, got {size(participant_id)} bytes"
        )


__all__ = ["LONGEST_ID", "CompletedExchange", "ContextManager"]
