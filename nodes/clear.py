# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that forgets everything of a participant."""

from __future__ import annotations

from xr_ai_conversation.state.participant import LiveState, ParticipantState


async def clear(_: ParticipantState) -> LiveState:
    """Return the operation that empties the context, and an empty reply."""
    return {"context": [{"op": "clear"}], "reply": "", "manifest": None}


__all__ = ["clear"]
