# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The system message of an answer request."""

from __future__ import annotations

SYSTEM_PROMPT = (
    "You are a helpful assistant who holds a spoken conversation. Answer the last message briefly and to the "
    "point, from what you know and from the recorded context before it. When two records disagree, the one with "
    "the later time holds. Say so when you do not know."
)
"""The default; it claims no tools, and no view of anything."""


def system_text(system_prompt: str | None, instructions: str) -> str:
    """Return the system prompt followed by the application's instructions.

    Args:
        system_prompt: Replaces the default entirely, also when it is empty; None keeps the default.
        instructions: The application's own; may be empty.
    """
    prompt = SYSTEM_PROMPT if system_prompt is None else system_prompt
    return "\n\n".join(filter(None, (prompt, instructions)))


__all__ = ["SYSTEM_PROMPT", "system_text"]
