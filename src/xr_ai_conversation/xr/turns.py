# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a turn carries through the routing graph, and what is known of its participant."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

from xr_ai_conversation.xr.routing import Admission, AgentExchange, AgentTurn, TurnResult

Output: TypeAlias = Callable[[AgentTurn, str, str], Awaitable[None]]
"""Says a text of the router's to a participant: for which turn, for which route, which text."""

ROUTER = "router"
"""The route that is named for a text when no destination has the turn."""

Step: TypeAlias = Literal["focus", "select", "admit", "answer", "clarify", "fail"]


@dataclass(slots=True)
class Memory:
    """What a router knows of a participant from turn to turn."""

    history: deque[AgentExchange]
    """Completed exchanges, oldest first; it bounds itself."""
    focus: str | None = None
    """The destination that has the next turn."""


@dataclass(slots=True)
class Run:
    """What the nodes of one turn share besides the state."""

    memory: Memory
    """The participant's."""
    output: Output
    """Says the router's texts."""
    begun: bool = False
    """The destination has begun to publish its answer."""


class TurnState(TypedDict, total=False):
    """A turn on its way."""

    turn: AgentTurn
    """The turn, with the completed exchanges."""
    route: str
    """The destination that is asked now; empty if there is none."""
    focused: bool
    """It is asked because it has the focus."""
    declined: tuple[str, ...]
    """Who declined the turn."""
    admission: Admission
    """What the destination said to the turn."""
    error: BaseException
    """Why the turn fails."""
    result: TurnResult
    """What came of the turn."""
    next: Step
    """The next node."""


__all__ = ["ROUTER", "Memory", "Output", "Run", "Step", "TurnState"]
