# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Topics, the methods that subscribe to them, and what is known of a message besides its payload."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Generic, Literal, TypeAlias, TypeVar, get_type_hints

from pydantic import BaseModel

MessageT = TypeVar("MessageT", bound=BaseModel)
"""The payload class of a topic."""

_MethodT = TypeVar("_MethodT", bound=Callable[..., Awaitable[None]])

_MARK = "__xr_ai_topics__"
"""Where a method keeps the topics that it subscribes to; the SDK's runtime looks there as well."""

Subscriber: TypeAlias = Callable[[Any, Any], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Topic(Generic[MessageT]):
    """A name under which messages of one payload class are published.

    Raises:
        TypeError: The message type is no Pydantic model.
        ValueError: The name is blank, or telemetry is neither "full" nor "none".
    """

    name: str
    """Of the topic; one name goes with one payload class."""
    message_type: type[MessageT]
    """The payload class, compared by identity."""
    telemetry: Literal["full", "none"] = "full"
    """How much of its messages is traced, where the runtime traces; the local one does not."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError(f"a topic's name must not be blank, got {self.name!r}")
        if not (isinstance(self.message_type, type) and issubclass(self.message_type, BaseModel)):
            raise TypeError(f"message_type must be a Pydantic model class, got {self.message_type!r}")
        if self.telemetry not in ("full", "none"):
            raise ValueError(f"telemetry must be 'full' or 'none', got {self.telemetry!r}")


@dataclass(frozen=True, slots=True)
class MessageMetadata:
    """What is known of a published message besides its payload."""

    message_id: str
    """Of this message alone."""
    correlation_id: str
    """The id of the message that the whole chain began with."""
    participant_id: str | None
    """Whom the message concerns; None is everybody."""
    source: str
    """Who published it."""
    parent_message_id: str | None
    """The message during whose delivery it was published."""
    timestamp_us: int
    """Unix microseconds at publication."""


def subscribe(topic: Topic[Any]) -> Callable[[_MethodT], _MethodT]:
    """Return a decorator that subscribes an asynchronous method `(self, message, context)` to a topic.

    It may be given several times for one method.

    Args:
        topic: Its payload class is the annotation of `message`.
    """

    def mark(method: _MethodT) -> _MethodT:
        setattr(method, _MARK, (topic, *getattr(method, _MARK, ())))
        return method

    return mark


def subscriptions(agent: object) -> Iterator[tuple[Topic[Any], Subscriber]]:
    """Yield each topic that a method of an agent subscribes to, with the method, as they were defined.

    Args:
        agent: Methods that were put on the instance count as well.

    Raises:
        NameError: An annotation cannot be resolved.
        TypeError: A method is not asynchronous, does not take `(message, context)`, or its message is not
            annotated with the topic's payload class.
    """
    owners = (*reversed(type(agent).__mro__), agent)
    for name in dict.fromkeys(name for owner in owners for name in getattr(owner, "__dict__", {})):
        # asked statically first: looking for subscribers must not run an agent's properties
        if not isinstance(inspect.getattr_static(agent, name), FunctionType | MethodType | classmethod):
            continue
        method = getattr(agent, name)
        if not inspect.ismethod(method):
            continue
        topics: tuple[Topic[Any], ...] = getattr(method, _MARK, ())
        for topic in topics:
            _check(method, topic)
            yield topic, method


def _check(method: MethodType, topic: Topic[Any]) -> None:
    name = method.__qualname__
    if not inspect.iscoroutinefunction(method):
        raise TypeError(f"subscriber {name} must be asynchronous")
    parameters = list(inspect.signature(method).parameters)
    if len(parameters) != 2:
        raise TypeError(
            f"subscriber {name} must take a message and a context, not {len(parameters)} arguments"
        )
    found = get_type_hints(method).get(parameters[0])
    if found is not topic.message_type:
        wanted = topic.message_type.__qualname__
        raise TypeError(f"subscriber {name} of {topic.name!r} must annotate its message with {wanted}")


__all__ = ["MessageMetadata", "MessageT", "Subscriber", "Topic", "subscribe", "subscriptions"]
