# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The context manager: what is remembered of each participant, kept within its budgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Protocol, Self

from langchain_core.language_models import BaseChatModel

from xr_ai_conversation.graph.build import (
    NodeName,
    check_chat_model,
    live_graph,
    new_id,
    system_clock,
    whole_graph,
)
from xr_ai_conversation.graph.compactor import Compactor
from xr_ai_conversation.graph.history import Commit, Kept, commits
from xr_ai_conversation.graph.ledger import Ledger, Snapshot
from xr_ai_conversation.graph.metrics import Metrics
from xr_ai_conversation.graph.participants import LONGEST_ID, Participant, Participants
from xr_ai_conversation.graph.stores import Saver
from xr_ai_conversation.graph.tasks import unbroken
from xr_ai_conversation.nodes.compact import compact_node
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.compaction import CompactionPrompts
from xr_ai_conversation.state.context import ContextSchemaError, Exchange, ParticipantContext, empty
from xr_ai_conversation.state.identity import identity
from xr_ai_conversation.state.operations import (
    Operation,
    PastExchange,
    Reconcile,
    fold,
    record,
    repeated,
    update,
)
from xr_ai_conversation.state.prompt import blocks, context_message, digest
from xr_ai_conversation.state.render import ContextBlock
from xr_ai_conversation.state.text import clean, visible
from xr_ai_conversation.state.times import from_microseconds, stamp

_LOG = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that a conversation answers."""

    participant_id: str
    request: str
    """Cleaned."""
    turn_id: str | None
    time: datetime
    """When it was said; its exchange is recorded as of then."""
    told: datetime
    """The current time that the model is told, with its zone."""


class BaseContextManager:
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
        history: How many checkpoints of each participant are kept for inspection; one is written with every exchange,
            update and summary. The default is an hour of two of those a minute.
        idle_after: Forget a participant of whom nothing was stored for so long, at the next touch, or when others are
            served meanwhile; None never does. `expire` does it at once.

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
        history: int = 120,
        idle_after: timedelta | None = None,
    ) -> None:
        check_chat_model(llm)
        if history < 1:
            raise ValueError(f"history must be at least 1 checkpoint, got {history}")
        if idle_after is not None and idle_after <= timedelta():
            raise ValueError(f"idle_after must be longer than nothing, got {idle_after}")
        self.budgets = Budgets.of(
            summary_topics=summary_context_topics,
            incremental_topics=incremental_context_topics,
            dialogue_bytes=dialogue_budget_bytes,
            topic_bytes=topic_budget_bytes,
            compaction_input_bytes=compaction_input_budget_bytes,
        )
        self.clock = clock or system_clock
        self.metrics = Metrics()
        graph = whole_graph(llm, llm, "", self.budgets, prompts, self.clock)
        self._idle_after = idle_after
        self._expired = self.clock()
        self._participants = Participants(forgetful=checkpointer is not None)
        self._ledger = Ledger(graph, checkpointer, history, self._participants, self._look_after)
        self._compactor = Compactor(
            live_graph("compact", compact_node(llm, self.budgets, prompts, new_id)),
            self.budgets,
            self._ledger,
            self._participants,
            self.metrics,
        )
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
            participant_id: Any string of 1 to 512 bytes.

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
        return (await self.read(participant_id)).context

    async def read(self, participant_id: str) -> Snapshot:
        """Return a participant's context as it is now, and where it is stored; args and errors are those of `blocks`."""
        with self._participants.using(participant_id) as participant:
            if self._closed:
                return Snapshot(empty(), "")
            await self._ledger.forget_idle(participant, self._since())
            epoch = participant.epoch
            found = await self._ledger.snapshot(participant)
            if not participant.touched and epoch == participant.epoch:
                self._look_after(participant, found.context)
            return found

    async def checkpoints(self, participant_id: str) -> list[Kept]:
        """Return a participant's checkpoints that are kept, oldest first; args and errors are those of `blocks`."""
        with self._participants.using(participant_id) as participant:
            if self._closed:
                return []
            await self._ledger.forget_idle(participant, self._since())
            return await self._ledger.checkpoints(participant)

    async def history(self, participant_id: str) -> list[Commit]:
        """Return what each commit changed, oldest first, as far back as checkpoints are kept.

        Args:
            participant_id: Any string of 1 to 512 bytes.

        Returns:
            Empty if nothing is known, and after `close`.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
            ValueError: The id cannot be.
        """
        return commits(await self.checkpoints(participant_id), self.budgets)

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
            participant_id: Any string of 1 to 512 bytes.
            request: What the participant said; may be empty.
            response: What was answered.
            turn_id: The id of the turn, where there is one.
            timestamp: When it was said; without a zone it is taken as of the clock's. None is now.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
            TypeError: The timestamp is no datetime.
            ValueError: The id cannot be, or the response is blank.
        """
        exchange = self._exchange(request, response, turn_id, timestamp)
        if not visible(response):
            raise ValueError(f"response must not be blank, got {len(response)} blank characters")
        await self._commit(participant_id, "record", record(exchange, turn_id))

    async def record_interrupted(
        self,
        participant_id: str,
        request: str,
        response: str,
        *,
        turn_id: str | None = None,
        timestamp: datetime | None = None,
    ) -> None:
        """Record an exchange whose answer was cut short; prompts show it as interrupted.

        It has no identity: a router's history does not hold it.

        Args:
            participant_id: Any string of 1 to 512 bytes.
            request: What the participant said.
            response: As much of the answer as had been given out; may be empty.
            turn_id: As for `record_exchange`, which takes the same; here it tells nothing.
            timestamp: When it was said; without a zone it is taken as of the clock's. None is now.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
            TypeError: A text is no string, or the timestamp no datetime.
            ValueError: The id cannot be.
        """
        exchange = self._exchange(request, response, turn_id, timestamp)
        await self._commit(participant_id, "record", record({**exchange, "interrupted": True}))

    async def record_answer(
        self, asked: Asked, response: str, seen: Snapshot | None, *, interrupted: bool = False
    ) -> None:
        """Record an answer of a conversation with what it was made from; else as `record_exchange`.

        Args:
            asked: What was asked.
            response: What was answered; of an interrupted one, as much as had been given out.
            seen: What the answer was made from; None if it was cut short before that was read.
            interrupted: It was cut short.
        """
        exchange = self._exchange(asked.request, response, asked.turn_id, asked.time)
        if interrupted:
            exchange["interrupted"] = True
        if seen:
            message = context_message(blocks(seen.context, self.budgets), asked.told)
            self.metrics.context_size(message)
            exchange["basis"] = {"checkpoint": seen.checkpoint_id, "digest": digest(message)}
            if (told := stamp(asked.told)) != exchange["time"]:
                exchange["basis"]["told"] = told
            if seen.window:
                exchange["basis"]["window"] = seen.window
        await self._commit(asked.participant_id, "record", record(exchange, asked.turn_id))

    async def update(
        self, participant_id: str, topic: str, text: str, *, timestamp: datetime | None = None
    ) -> None:
        """Take in what was published on a topic; it is durable when this returns. After `close` it is dropped.

        Args:
            participant_id: Any string of 1 to 512 bytes.
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
            participant_id: Any string of 1 to 512 bytes.
            exchanges: Completed exchanges, oldest first; those without a response are left out.

        Raises:
            ContextSchemaError: What is stored is damaged, or of a newer version.
            TypeError: An exchange lacks a request or a response, or they are no strings.
            ValueError: The id cannot be, or a time cannot.
        """
        _, commit = await self.with_history(participant_id, exchanges)
        if commit:
            await commit

    async def with_history(
        self, participant_id: str, exchanges: Sequence[CompletedExchange], *, unordered: bool = False
    ) -> tuple[Snapshot, asyncio.Task[None] | None]:
        """Return a participant's context with a router's window in it, and the task that commits what is new of that.

        An answer need not wait for the commit; whoever records it awaits the task before. None if nothing is new.
        Args and errors are those of `reconcile`; of an unordered history each exchange is new that was not recorded as
        often as it is there.
        """
        ids = f"{new_id()}."
        window = [
            past
            for number, exchange in enumerate(exchanges)
            if (past := self._past(exchange, f"{ids}{number}"))
        ]
        operation: Reconcile = {"op": "reconcile", "window": window, "now": self._stamp(None)}
        if unordered:
            operation["unordered"] = True
        found = await self.read(participant_id)
        if self._closed or not window:
            return found, None
        with self._participants.using(participant_id) as participant:
            context = await self._ledger.with_identities(participant, found.context)
        if (known := fold(context, [operation])) == context:
            return replace(found, context=context), None
        if again := repeated(context, operation):
            fields = {"participant_id": participant_id, "exchanges": again}
            _LOG.warning(
                "participant %(participant_id)r: %(exchanges)d exchanges of a history window were recorded before and are "
                "recorded again; let one router-driven writer record in a manager",
                fields,
                extra=fields,
            )
        commit = self._commit(participant_id, "record", operation)
        task = self._participants.start(commit, "commit of a history window")
        return replace(found, context=known, window=ids), task

    async def settled(self, participant_id: str | None = None) -> None:
        """Return when no compaction is running or due now.

        Args:
            participant_id: Whose; None is all whom this manager has touched.
        """
        self._participants.enter_loop()
        untouched = [participant.id for participant in self._participants.all() if not participant.touched]
        for each in untouched if participant_id is None else [participant_id]:
            await self.snapshot(each)
        while jobs := self._participants.jobs(participant_id):
            await asyncio.wait(jobs)

    async def clear(self, participant_id: str) -> None:
        """Forget everything of a participant, in the store as well.

        Its running compactions are cancelled and awaited; an answer that is still streaming is not, and records
        its exchange as the start of a new context. Clearing twice is clearing once.

        Args:
            participant_id: Any string of 1 to 512 bytes.

        Raises:
            ValueError: The id cannot be.
        """
        with self._participants.using(participant_id) as participant:
            participant.clearing += 1
            try:
                await unbroken(self._clear(participant), "clear a participant")
            finally:
                participant.clearing -= 1
                participant.failed.clear()
                participant.touched = False

    async def _clear(self, participant: Participant) -> None:
        await self._compactor.stop(participant)
        await self._ledger.forget(participant)

    async def close(self) -> None:
        """Stop all compactions and drop what comes later; what is stored stays. Closing twice is closing once."""
        self._participants.enter_loop()
        self._closed = True
        self._ledger.seal()
        await unbroken(self._close(), "close a manager")

    async def _close(self) -> None:
        await self._compactor.close()
        await self._ledger.close()

    async def expire(self) -> int:
        """Forget everybody of whom nothing was stored for `idle_after`, and return how many they were.

        It is for a scheduler of the application's; nobody is forgotten where `idle_after` is None, and with a saver that
        is neither in memory, SQLite's nor PostgreSQL's.
        """
        self._participants.enter_loop()
        self._expired = self.clock()
        since = self._since()
        if since is None or self._closed:
            return 0
        forgotten = 0
        for participant_id in await self._ledger.idle(since):
            with self._participants.using(participant_id) as participant:
                try:
                    forgotten += await self._ledger.forget_idle(participant, self._since())
                except ContextSchemaError as error:
                    _LOG.warning("not expired: %s", error, extra={"participant_id": participant_id})
        return forgotten

    def _since(self) -> datetime | None:
        """Return the time since which something must have been stored of whoever is not idle; None is no matter."""
        return None if self._idle_after is None else self.clock() - self._idle_after

    async def _expire(self) -> None:
        try:
            await self.expire()
        except Exception as error:  # noqa: BLE001 - who is left over goes the next time
            fields = {"error": type(error).__name__}
            _LOG.warning("idle participants were not expired (%(error)s)", fields, extra=fields)

    async def _commit(self, participant_id: str, node: NodeName, operation: Operation) -> None:
        with self._participants.using(participant_id) as participant:
            await self._ledger.commit(participant, node, [operation], since=self._since())
        if self._idle_after and not self._closed and self.clock() - self._expired > self._idle_after / 10:
            self._expired = self.clock()
            self._participants.start(self._expire(), "expire idle participants")

    def _look_after(self, participant: Participant, context: ParticipantContext) -> None:
        self._compactor.look_after(participant, context)

    def _stamp(self, timestamp: datetime | None) -> str:
        if timestamp is None:
            return stamp(self.clock())
        if not isinstance(timestamp, datetime):
            raise TypeError(f"timestamp must be a datetime or None, got {type(timestamp).__name__}")
        zone = None if self.clock is system_clock else self.clock().tzinfo
        try:
            return stamp((timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=zone)).astimezone(zone))
        except (OverflowError, OSError, ValueError):
            raise ValueError(f"timestamp must be a day inside the years 1 to 9999, got {timestamp}") from None

    def _exchange(
        self, request: str, response: str, turn_id: str | None, timestamp: datetime | None
    ) -> Exchange:
        for name, value in (("request", request), ("response", response), ("turn_id", turn_id or "")):
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, got {type(value).__name__}")
        return {
            "id": new_id(),
            "time": self._stamp(timestamp),
            "request": clean(request),
            "response": clean(response),
        }

    def _past(self, exchange: CompletedExchange, entry_id: str) -> PastExchange | None:
        """Return an exchange of a window as it is to be committed; None if it has no response."""
        if exchange.response is None or not visible(exchange.response):
            return None
        time = exchange.timestamp_us
        words = self._exchange(
            exchange.request,
            exchange.response,
            exchange.turn_id,
            None if time is None else from_microseconds(time),
        )
        name = identity(words["request"], words["response"], exchange.turn_id)
        past: PastExchange = {
            "id": entry_id,
            "request": words["request"],
            "response": words["response"],
            "identity": name,
        }
        if time is not None:
            past["time"] = words["time"]
        if exchange.turn_id:
            past["turn_id"] = exchange.turn_id
        return past


__all__ = ["LONGEST_ID", "Asked", "BaseContextManager", "CompletedExchange"]
