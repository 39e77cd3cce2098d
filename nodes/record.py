# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that records a completed exchange."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from xr_ai_conversation.state.operations import Operation, record
from xr_ai_conversation.state.participant import LiveState, ParticipantState


def record_node(new_id: Callable[[], str]) -> Callable[[ParticipantState], Awaitable[LiveState]]:
    """Return the node that records `request` and `reply` as one exchange; `new_id` makes the entry's id."""

    async def record_exchange(state: ParticipantState) -> LiveState:
        operation: Operation = record(
            {"id": new_id(), "time": state["asked"], "request": state["request"], "response": state["reply"]}
        )
        return {"context": [operation]}

    return record_exchange


__all__ = ["record_node"]
