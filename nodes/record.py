# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that records a completed exchange."""

from __future__ import annotations

from collections.abc import Callable

from langgraph.types import Overwrite

from xr_ai_conversation.nodes.step import Step
from xr_ai_conversation.state.chat import shown
from xr_ai_conversation.state.context import empty, load
from xr_ai_conversation.state.operations import Operation, fold, record
from xr_ai_conversation.state.participant import Changes, ParticipantState


def record_node(new_id: Callable[[], str]) -> Step[ParticipantState, Changes]:
    """Return the node that records `exchange`, if there is one; `new_id` makes the entry's id."""

    def record_exchange(state: ParticipantState) -> Changes:
        context, messages = state.get("context") or empty(), state.get("messages", ())
        answered = state.get("exchange")
        if not answered:
            return {"messages": Overwrite(shown(load(context)["dialogue"]["entries"], messages))}
        time, request, response = answered["time"], answered["request"], answered["response"]
        operation: Operation = record(
            {"id": new_id(), "time": time, "request": request, "response": response}
        )
        entries = fold(context, [operation])["dialogue"]["entries"]
        return {
            "context": [operation],
            "exchange": None,
            "reply": response,
            "rejected": "",
            "messages": Overwrite(shown(entries, messages)),
        }

    return Step(record_exchange)


__all__ = ["record_node"]
