# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a manager has recorded of a participant's dialogue."""

from __future__ import annotations

from xr_ai_conversation import ContextManager


async def exchanges(context: ContextManager, participant: str = "p") -> list[tuple[str, str]]:
    """Return request and response of each exchange that is stored verbatim, in prompt order."""
    entries = (await context.snapshot(participant))["dialogue"]["entries"]
    return [(entry["request"], entry["response"]) for entry in entries if "request" in entry]


async def requests(context: ContextManager, participant: str = "p") -> list[str]:
    """Return the requests of those."""
    return [request for request, _ in await exchanges(context, participant)]
