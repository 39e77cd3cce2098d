# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The whole on the embedded model, over real HTTP, in a real file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakes.clock import Clock
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.models import EmbeddedModel
from xr_ai_conversation.state.text import size

pytestmark = pytest.mark.model

DIALOGUE, TOPIC = 1_600, 900


@pytest.fixture
async def model() -> AsyncIterator[EmbeddedModel]:
    async with EmbeddedModel() as running:
        yield running


async def answer(talk: Conversation, clock: Clock, text: str) -> str:
    clock.move(seconds=20)
    return "".join([piece async for piece in talk.stream("ann", text)])


def context_of(sent: list[BaseMessage]) -> str:
    return str(sent[1].content)


async def test_facts_are_remembered_compacted_and_kept_within_the_budgets(
    model: EmbeddedModel, clock: Clock, tmp_path: Path
) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "context.db")) as saver:
        context = ContextManager(
            model.summaries,
            prompts=model.prompts,
            incremental_context_topics=["notes"],
            summary_context_topics=["camera"],
            dialogue_budget_bytes=DIALOGUE,
            topic_budget_bytes=TOPIC,
            compaction_input_budget_bytes=1_600,
            checkpointer=saver,
            clock=clock,  # what so small a model says depends on the time that it is told
        )
        talk = Conversation(model.answers, context=context, instructions="Answer in one short sentence.")
        await context.update("ann", "notes", "The calibration meeting is on Wednesday at ten.")
        assert "Wednesday" in await answer(talk, clock, "When is the calibration meeting?")
        await answer(talk, clock, "The spare key is in drawer seven.")
        assert "drawer seven" in await answer(talk, clock, "Where is the spare key?")

        summaries: set[str] = set()
        for number in range(7):
            await context.update("ann", "camera", f"There are {number} people in the room.")
            await answer(talk, clock, f"Name city number {number} that you would like to see, and say why.")
            await context.settled("ann")
            section = (await context.snapshot("ann"))["dialogue"]
            if section["summary"]:
                summaries.add(section["summary"]["id"])
                assert size(section["summary"]["text"]) <= DIALOGUE // 4
                assert "user>" not in section["summary"]["text"]
            blocks = await context.blocks("ann")
            sent = await talk.messages("ann", "And then?")
            shown = [
                block.text for block in blocks if "notes" not in block.text and "camera" not in block.text
            ]
            assert sum(size(text) + 2 for text in shown) <= DIALOGUE
            assert size(context_of(sent)) <= DIALOGUE + 2 * TOPIC + 300
        assert len(summaries) >= 2
        before = context_of(await talk.messages("ann", "Hi")).split("Current time:")[0]
        await context.close()

    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "context.db")) as saver:
        context = ContextManager(
            model.summaries,
            prompts=model.prompts,
            incremental_context_topics=["notes"],
            summary_context_topics=["camera"],
            dialogue_budget_bytes=DIALOGUE,
            topic_budget_bytes=TOPIC,
            compaction_input_budget_bytes=1_600,
            checkpointer=saver,
            clock=clock,  # what so small a model says depends on the time that it is told
        )
        talk = Conversation(model.answers, context=context, instructions="Answer in one short sentence.")
        assert context_of(await talk.messages("ann", "Hi")).split("Current time:")[0] == before
        assert "Wednesday" in await answer(talk, clock, "When is the calibration meeting?")
        await context.close()
