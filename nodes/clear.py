# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that forgets everything of a participant."""

from __future__ import annotations

from langgraph.types import Overwrite

from xr_ai_conversation.nodes.step import Step
from xr_ai_conversation.state.participant import Changes, ParticipantState


def clear_node() -> Step[ParticipantState, Changes]:
    """Return the node that empties the context and the messages, with an empty reply."""

    def clear(_: ParticipantState) -> Changes:
        return {
            "context": [{"op": "clear"}],
            "exchange": None,
            "reply": "",
            "messages": Overwrite([]),
            "manifest": None,
        }

    return Step(clear)


__all__ = ["clear_node"]
