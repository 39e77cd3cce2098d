# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The whole routed house under load, in small; `benchmarks/soak.py` does it with two hundred participants."""

from __future__ import annotations

import asyncio

import pytest
from fakes.soak import Plan, Soak, objects

GIVE_UP_SECONDS = 300
"""Only lest a house that stands still goes unnoticed."""


@pytest.mark.parametrize("record_interrupted", [False, True])
async def test_nobody_hears_or_is_told_of_another_and_nothing_is_lost_doubled_or_left(
    record_interrupted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    plan = Plan(24, moments=3, updates=2, record_interrupted=record_interrupted)
    async with asyncio.timeout(GIVE_UP_SECONDS), Soak(plan) as soak:
        before = objects()
        await soak.round()
        after = objects()
    counts = soak.counts
    assert soak.faults == []
    assert after == before
    assert (counts.foreign, counts.tasks_left, counts.held) == (0, 0, 0)
    people = plan.participants * plan.visits
    assert counts.departures == people
    assert counts.contexts == 2 * people
    assert counts.turns == counts.answered + counts.cancelled + counts.unreached
    for happened in ("cancelled", "unreached", "interruptions", "remembering", "summaries", "late"):
        assert getattr(counts, happened) > plan.participants / 4, happened
    assert (counts.marked > 0) == record_interrupted
    # a section that grows faster than it is compacted says so; nothing else is to be warned of
    assert [text for text in caplog.messages if "exceeds its budget" not in text] == []
