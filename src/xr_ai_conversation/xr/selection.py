# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Which destination is to have a turn that nobody has the focus for."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xr_ai_conversation.xr.host import DecisionQuestion
from xr_ai_conversation.xr.questions import DecisionService
from xr_ai_conversation.xr.routing import AgentTurn, RoutableAgent, RoutingAid
from xr_ai_conversation.xr.settle import Failure, attempt

_LOG = logging.getLogger(__name__)

_QUESTION = "route"
_INSTRUCTIONS = "Choose the route for the query. If two fit equally well, choose the one listed first."
_EARLIER = 1
"""How many exchanges before the query are shown to the decision service: it may need to know what "it" is, and
a small model chooses worse with every one (of ten queries rightly routed, 9 with none, 8 or 9 with one, 7 with two)."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Chooses among destinations by their routing aids."""

    destinations: Mapping[str, RoutableAgent]
    """By name."""
    decisions: DecisionService
    """Chooses where more than one destination is eligible."""
    default: str | None
    """Tried when the choice fails, or when two destinations have declined; None is none."""
    timeout_s: float | None
    """Seconds that a decision may take; None is the service's own."""

    def eligible(self, name: str, turn: AgentTurn) -> bool:
        """Return whether a destination can have the turn; one that cannot tell is not.

        Args:
            name: Of the destination.
            turn: The turn, with the completed exchanges.
        """
        aid = self.destinations[name].routing
        if aid is None or aid.eligible is None:
            return True
        try:
            return bool(aid.eligible(turn))
        except Exception as error:  # noqa: BLE001 - it is the application's, and must not stop the turn
            fields = {"route": name, "error": type(error).__name__}
            _LOG.warning("route %(route)r: its eligibility failed with %(error)s", fields, extra=fields)
            return False

    async def choose(self, turn: AgentTurn, declined: Sequence[str]) -> str | None:
        """Return the name of the destination that is to be asked next, or None if there is none.

        Args:
            turn: The turn, with the completed exchanges.
            declined: Who declined it already; after one there is one other choice, then the default is left.

        Raises:
            LookupError: No choice could be made, and there is no default.
        """
        candidates = [name for name in self._ranked() if name not in declined and self.eligible(name, turn)]
        default = self.default if self.default in candidates else None
        if len(declined) > 1:
            return default
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        choice = await attempt(self._decide(turn, candidates))
        if not isinstance(choice, Failure):
            return choice
        fields = {"turn_id": turn.turn_id, "error": type(choice.error).__name__}
        _LOG.warning("the choice of a route failed with %(error)s", fields, extra=fields)
        if default is None:
            raise LookupError("no route could be chosen") from choice.error
        return default

    async def _decide(self, turn: AgentTurn, candidates: Sequence[str]) -> str:
        question = DecisionQuestion(
            instructions=_INSTRUCTIONS,
            criteria={name: self._aid(name).description for name in candidates},
        )
        earlier = [
            {"request": exchange.request, "response": exchange.response or ""}
            for exchange in turn.exchanges[-_EARLIER:]
        ]
        state: dict[str, object] = {"earlier_exchanges": earlier, "query": turn.text}
        decided = await self.decisions.decide(state, {_QUESTION: question}, timeout=self.timeout_s)
        choice = decided.answers[_QUESTION].choice
        if choice not in candidates:
            raise ValueError(f"the decision service chose {choice!r}, which is none of {candidates}")
        return choice

    def _ranked(self) -> list[str]:
        return sorted(self.destinations, key=lambda name: -self._aid(name).priority)

    def _aid(self, name: str) -> RoutingAid:
        return self.destinations[name].routing or RoutingAid(description=name)


__all__ = ["Selection"]
