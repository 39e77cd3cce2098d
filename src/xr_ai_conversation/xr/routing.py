# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a router and its destinations tell each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

Started: TypeAlias = Callable[[], Awaitable[None] | None]
"""What a destination is given as `started`, and calls once, just before it publishes the first piece of its answer that
has text; the result is awaited if it is awaitable. From then on the router says nothing of a failure."""


@dataclass(frozen=True, slots=True)
class AgentExchange:
    """One completed exchange: what the participant said, and what came of it."""

    request: str
    """What the participant said."""
    response: str | None
    """What was answered; None if nothing that is to be remembered."""
    timestamp_us: int | None = None
    """Unix microseconds of the request, or None."""
    turn_id: str | None = None
    """The id of its turn, or None."""


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """One query of a participant.

    Raises:
        ValueError: An id or the text is blank.
    """

    participant_id: str
    """Who asks."""
    turn_id: str
    """The id that replies to it carry."""
    text: str
    """The query."""
    timestamp_us: int | None = None
    """Unix microseconds of the query, or None."""
    exchanges: tuple[AgentExchange, ...] = ()
    """Completed exchanges before it, oldest first; a router puts in those that it knows."""

    def __post_init__(self) -> None:
        for name in ("participant_id", "turn_id", "text"):
            value = getattr(self, name)
            if not value.strip():
                raise ValueError(f"{name} must not be blank, got {value!r}")


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a destination takes a turn, before it says or does anything for it.

    Raises:
        ValueError: The disposition is none of the four, or a clarification has no question.
    """

    disposition: Literal["accept", "decline", "clarify", "release"]
    """To accept starts the answer. To decline hands the turn to another route, and keeps the focus where it is. To
    clarify ends the turn with a question, which is shown as its answer later; the focus stays where it is, so take it
    before if the participant's reply is to come here. To release gives up the focus and hands the turn to ordinary
    routing, which may choose the same destination again; without the focus it is to decline."""
    text: str = ""
    """The question of a clarification. With an acceptance, something to say at once: the router publishes it as a final
    reply of its own, before the answer. Otherwise unused."""

    def __post_init__(self) -> None:
        if self.disposition not in ("accept", "decline", "clarify", "release"):
            raise ValueError(
                f"disposition must be accept, decline, clarify or release, got {self.disposition!r}"
            )
        if self.disposition == "clarify" and not self.text.strip():
            raise ValueError("a clarification needs a question as its text")


@dataclass(frozen=True, slots=True)
class RoutingAid:
    """What a destination is chosen by; its full instructions stay with it."""

    description: str
    """What it is for, in a sentence or two; the decision service chooses among descriptions."""
    priority: int = 0
    """Descriptions are shown highest number first, and of two that fit equally well the first is to be chosen."""
    eligible: Callable[[AgentTurn], bool] | None = None
    """Whether it can have a turn at all; None is always. It is asked of whoever has the focus too, and a no takes the
    focus away: answer yes for turns that go on with what was begun."""


@dataclass(frozen=True, slots=True)
class DestinationResult:
    """What came of an answer.

    Raises:
        ValueError: The focus is none of the three.
    """

    exchange: AgentExchange | None = None
    """The completed exchange, which later turns are shown; None if there is nothing to show."""
    focus: Literal["keep", "take", "release"] = "keep"
    """Leave the focus as it is, take it, so that the participant's next turns come here first, or give it up. Whoever
    loses it is told by its `release`, itself included."""

    def __post_init__(self) -> None:
        if self.focus not in ("keep", "take", "release"):
            raise ValueError(f"focus must be keep, take or release, got {self.focus!r}")


class NoRouteError(LookupError):
    """The error of a turn that no destination takes."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What came of a turn."""

    outcome: Literal["answered", "clarified", "cancelled", "failed"]
    """Cancelled is what a newer turn, an interruption, a departure or a stop did to it."""
    route: str | None = None
    """The name of the destination that had it at the end."""
    exchange: AgentExchange | None = None
    """What later turns are shown of it."""
    error: BaseException | None = None
    """Why it failed."""


@runtime_checkable
class RoutableAgent(Protocol):
    """A destination of a router. It may have a `close()` as well, which is the application's to call."""

    @property
    def routing(self) -> RoutingAid | None:
        """What it is chosen by; None is its name alone."""

    async def admit(self, turn: AgentTurn) -> Admission:
        """Say whether it takes the turn; nothing is said or done for the turn yet."""

    async def answer(self, turn: AgentTurn, started: Started | None = None) -> DestinationResult | None:
        """Answer the turn; None is a result that says nothing.

        It is cancelled when the participant asks something new, interrupts or leaves; it has ended whatever it had
        begun to publish when the cancellation leaves it.
        """

    async def release(self, participant_id: str) -> None:
        """Take note that it has lost the participant's focus."""

    async def participant_left(self, participant_id: str) -> None:
        """Take note that the participant left; its answers have ended."""


@dataclass(frozen=True, slots=True)
class RoutingTurnContext:
    """What is known of the turn that is being routed."""

    participant_id: str
    """Who asks."""
    turn_id: str
    """The id of the turn."""
    route: str
    """The name of the destination that has the turn."""
    focused: bool
    """It has the turn because it has the participant's focus."""
    timestamp_us: int | None = None
    """Unix microseconds of the query, or None."""


TURN: ContextVar[RoutingTurnContext] = ContextVar("xr_ai_conversation.turn")
"""The turn that the current task is working on; the router sets it."""


def current_turn_context() -> RoutingTurnContext:
    """Return what is known of the turn for which a destination is being called.

    Raises:
        LookupError: Nothing is being routed here.
    """
    try:
        return TURN.get()
    except LookupError:
        raise LookupError("no turn is being routed here") from None


__all__ = [
    "TURN",
    "Admission",
    "AgentExchange",
    "AgentTurn",
    "DestinationResult",
    "NoRouteError",
    "RoutableAgent",
    "RoutingAid",
    "RoutingTurnContext",
    "Started",
    "TurnResult",
    "current_turn_context",
]
