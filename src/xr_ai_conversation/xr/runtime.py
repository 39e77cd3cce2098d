# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A local agent runtime: typed topics, and delivery to every subscriber at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import uuid4

from pydantic import BaseModel

from xr_ai_conversation.xr.settle import cancel, settle
from xr_ai_conversation.xr.topics import (
    MessageMetadata,
    MessageT,
    Subscriber,
    Topic,
    subscribe,
    subscriptions,
)


class RuntimeClosedError(RuntimeError):
    """Raised when something is published, or started, while the runtime is not running or is closed."""


class Agent:
    """What can be registered with a runtime; its `subscribe` methods are given the messages of their topics.

    A subclass calls `super().__init__()`.

    Args:
        tools: What the agent offers to be called with; the runtime does not touch them.
    """

    def __init__(self, tools: Iterable[object] = ()) -> None:
        self._tools = tuple(tools)

    @property
    def tools(self) -> tuple[object, ...]:
        """What the agent offers to be called with."""
        return self._tools


_AgentT = TypeVar("_AgentT", bound=Agent)


@dataclass(frozen=True, slots=True)
class RuntimeContext:
    """What a subscriber is given with a message."""

    agent_name: str
    """The name that the subscriber's agent is registered under."""
    metadata: MessageMetadata
    """What is known of the message."""
    _runtime: AgentRuntime

    async def publish(
        self,
        topic: Topic[MessageT],
        message: MessageT | Mapping[str, Any],
        *,
        participant_id: str | None = None,
    ) -> None:
        """Publish in answer to the message, with the agent's name as source.

        Args:
            topic: Where.
            message: A payload of the topic, or its fields.
            participant_id: Whom it concerns; None is whom the message concerned.

        Raises:
            BaseExceptionGroup: Subscribers failed; all of them have settled.
            RuntimeClosedError: The runtime was stopped.
            ValueError: The id is blank, or the payload does not fit the topic.
        """
        concerned = self.metadata.participant_id if participant_id is None else participant_id
        await self._runtime._publish(topic, message, concerned, self.agent_name, self.metadata)


class AgentRuntime:
    """Delivers what is published on a topic to all its subscribers at once, each with a copy of its own.

    It runs once: agents are registered, it is started, and it cannot be started again after it was stopped.
    `async with` starts and stops it.
    """

    def __init__(self) -> None:
        self._agents: dict[str, Agent] = {}
        self._types: dict[str, type[BaseModel]] = {}
        self._subscribers: dict[str, list[tuple[str, Subscriber]]] = {}
        self._deliveries: set[asyncio.Task[None]] = set()
        self._running = False
        self._closed = False

    @property
    def running(self) -> bool:
        """Whether messages are delivered now."""
        return self._running

    def register(self, name: str, agent: _AgentT) -> _AgentT:
        """Take in an agent before the start, and return it.

        Args:
            name: The source of what the agent publishes.
            agent: Its subscribers are checked here.

        Raises:
            NameError: An annotation of a subscriber cannot be resolved.
            RuntimeError: The runtime was started.
            TypeError: The agent is none, has not called `super().__init__()`, or a subscriber's signature cannot be.
            ValueError: The name is blank or taken, or a topic is known with another payload class.
        """
        if self._running or self._closed:
            raise RuntimeError(f"agent {name!r} must be registered before the runtime is started")
        if not name.strip():
            raise ValueError(f"an agent's name must not be blank, got {name!r}")
        if name in self._agents:
            raise ValueError(f"an agent named {name!r} is registered already")
        if not isinstance(agent, Agent):
            raise TypeError(f"agent {name!r} must be an Agent, got {type(agent).__name__}")
        if not hasattr(agent, "_tools"):
            raise TypeError(f"agent {name!r} must call super().__init__()")
        found = list(subscriptions(agent))
        types = dict(self._types)
        for topic, _ in found:
            _agree(types, topic)
        self._types = types
        self._agents[name] = agent
        for topic, subscriber in found:
            self._subscribers.setdefault(topic.name, []).append((name, subscriber))
        return agent

    async def start(self) -> None:
        """Begin to deliver; a runtime that is running goes on.

        Raises:
            RuntimeClosedError: It was stopped.
        """
        if self._closed:
            raise RuntimeClosedError("the agent runtime was stopped and cannot be started again")
        self._running = True

    async def stop(self) -> None:
        """Cancel the deliveries under way and wait for them; nothing is delivered afterwards.

        Stopping twice is stopping once. A publisher whose deliveries are cancelled so gets them in a
        `BaseExceptionGroup`.
        """
        self._running = False
        self._closed = True
        deliveries = self._deliveries - {asyncio.current_task()}
        for delivery in deliveries:
            cancel(delivery)
        if deliveries:
            await asyncio.wait(deliveries)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def publish(
        self,
        topic: Topic[MessageT],
        message: MessageT | Mapping[str, Any],
        *,
        participant_id: str | None = None,
        source: str = "application",
    ) -> None:
        """Deliver a message to all subscribers of its topic, and wait until each of them is done.

        A cancellation cancels the deliveries, and goes on when they have ended.

        Args:
            topic: Where.
            message: A payload of the topic, or its fields.
            participant_id: Whom it concerns; None is everybody.
            source: Who publishes.

        Raises:
            BaseExceptionGroup: Subscribers failed, or were cancelled; all of them have settled. It is an
                `ExceptionGroup` if none was cancelled.
            RuntimeClosedError: The runtime is not running.
            ValueError: An id or the source is blank, or the payload does not fit the topic.
        """
        await self._publish(topic, message, participant_id, source, None)

    async def _publish(
        self,
        topic: Topic[Any],
        message: object,
        participant_id: str | None,
        source: str,
        parent: MessageMetadata | None,
    ) -> None:
        if not self._running:
            raise RuntimeClosedError("the agent runtime is not running")
        if participant_id is not None and not participant_id.strip():
            raise ValueError(f"participant_id must not be blank, got {participant_id!r}")
        if not source.strip():
            raise ValueError(f"source must not be blank, got {source!r}")
        _agree(self._types, topic)
        payload: BaseModel = topic.message_type.model_validate(message)
        message_id = uuid4().hex
        metadata = MessageMetadata(
            message_id=message_id,
            correlation_id=parent.correlation_id if parent else message_id,
            participant_id=participant_id,
            source=source,
            parent_message_id=parent.message_id if parent else None,
            timestamp_us=time.time_ns() // 1_000,
        )
        copies = [
            (name, subscriber, payload.model_copy(deep=True))
            for name, subscriber in self._subscribers.get(topic.name, ())
        ]
        tasks = [
            asyncio.create_task(
                subscriber(copy, RuntimeContext(name, metadata, self)), name=f"{topic.name} to {name}"
            )
            for name, subscriber, copy in copies
        ]
        self._deliveries.update(tasks)
        try:
            await settle(tasks)
        finally:
            self._deliveries.difference_update(tasks)


def _agree(types: dict[str, type[BaseModel]], topic: Topic[Any]) -> None:
    known = types.setdefault(topic.name, topic.message_type)
    if known is not topic.message_type:
        raise ValueError(
            f"topic {topic.name!r} is known with another payload class: "
            f"{known.__module__}.{known.__qualname__}, not "
            f"{topic.message_type.__module__}.{topic.message_type.__qualname__}"
        )


__all__ = [
    "Agent",
    "AgentRuntime",
    "MessageMetadata",
    "RuntimeClosedError",
    "RuntimeContext",
    "Topic",
    "subscribe",
]
