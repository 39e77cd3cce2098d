# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that takes in what was published on a topic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from xr_ai_conversation.nodes.step import Step
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.operations import update
from xr_ai_conversation.state.participant import Changes, ParticipantState
from xr_ai_conversation.state.times import stamp


def update_node(
    budgets: Budgets, clock: Callable[[], datetime], new_id: Callable[[], str]
) -> Step[ParticipantState, Changes]:
    """Return the node that appends `text` to an incremental `topic`, or makes it a summary topic's state.

    Args:
        budgets: Tell which topics are configured.
        clock: Returns the current time, with its zone.
        new_id: Makes the id of the update.
    """

    def take_update(state: ParticipantState) -> Changes:
        topic, text = state.get("topic") or "", state.get("text", "")
        return {"context": [update(budgets, new_id(), stamp(clock()), topic, text)], "rejected": ""}

    return Step(take_update)


__all__ = ["update_node"]
