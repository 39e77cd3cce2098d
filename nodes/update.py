# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that takes in what was published on a topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.operations import update
from xr_ai_conversation.state.participant import LiveState, ParticipantState
from xr_ai_conversation.state.times import stamp


def update_node(
    budgets: Budgets, clock: Callable[[], datetime], new_id: Callable[[], str]
) -> Callable[[ParticipantState], Awaitable[LiveState]]:
    """Return the node that appends `text` to an incremental `topic`, or makes it a summary topic's state.

    Args:
        budgets: Tell which topics are configured.
        clock: Returns the current time, with its zone.
        new_id: Makes the id of the update.
    """

    async def take_update(state: ParticipantState) -> LiveState:
        return {
            "context": [
                update(budgets, new_id(), stamp(clock()), state.get("topic") or "", state.get("text", ""))
            ]
        }

    return take_update


__all__ = ["update_node"]
