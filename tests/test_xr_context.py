# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is published on the topics of a context manager, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from fakes.chat import ScriptedModel
from fakes.clock import Clock
from fakes.saver import SteeredSaver
from fakes.summariser import Summariser

from xr_ai_conversation import ContextManager, ConversationContextUpdate
from xr_ai_conversation.xr import Agent, AgentRuntime, MessageMetadata, RuntimeContext, Topic, subscribe

CAMERA = Topic("lab.camera", ConversationContextUpdate)
GAZE = Topic("lab.gaze", ConversationContextUpdate)
NOTES = Topic("lab.notes", ConversationContextUpdate)


def manager(clock: Clock, model: ScriptedModel | None = None, **options: Any) -> ContextManager:
    return ContextManager(
        model or ScriptedModel(),
        summary_context_topics=("lab.camera", "lab.gaze"),
        incremental_context_topics=("lab.notes",),
        clock=clock,
        **options,
    )


def running(context: ContextManager) -> AgentRuntime:
    """Return a runtime that the manager listens to; it is to be started."""
    runtime = AgentRuntime()
    runtime.register("context", context.subscriber())
    return runtime


async def publish(runtime: AgentRuntime, topic: Topic[Any], text: str, participant: str | None = "p") -> None:
    await runtime.publish(topic, ConversationContextUpdate(text=text), participant_id=participant)


async def shown(context: ContextManager, participant: str = "p") -> str:
    return "\n".join(block.text for block in await context.blocks(participant))


@contextmanager
def refused(kind: type[Exception], words: str) -> Iterator[None]:
    """Expect that the one subscriber refuses what is published."""
    with pytest.raises(ExceptionGroup) as caught:
        yield
    (error,) = caught.value.exceptions
    assert isinstance(error, kind)
    assert words in str(error)


async def test_a_summary_topics_update_replaces_its_state_and_no_other_topics(clock: Clock) -> None:
    context = manager(clock)
    async with running(context) as runtime:
        await publish(runtime, CAMERA, "two people")
        await publish(runtime, GAZE, "at the pump")
        await publish(runtime, CAMERA, "nobody")
    text = await shown(context)
    assert "two people" not in text
    assert "state> nobody" in text
    assert "state> at the pump" in text


async def test_an_incremental_topics_updates_append(clock: Clock) -> None:
    context = manager(clock)
    async with running(context) as runtime:
        await publish(runtime, NOTES, "pump 7 is off")
        await publish(runtime, NOTES, "hall 3 is closed")
    text = await shown(context)
    assert text.index("update> pump 7 is off") < text.index("update> hall 3 is closed")


async def test_an_update_concerns_the_participant_of_its_message_only(clock: Clock) -> None:
    context = manager(clock)
    async with running(context) as runtime:
        await publish(runtime, NOTES, "of p", "p")
        await publish(runtime, NOTES, "of q", "q")
    assert "of q" not in await shown(context, "p")
    assert "of p" not in await shown(context, "q")


async def test_an_update_is_recorded_as_of_its_publication(clock: Clock) -> None:
    context = manager(clock)
    async with running(context) as runtime:
        before = datetime.now(UTC)
        await publish(runtime, NOTES, "now")
    (block,) = await context.blocks("p")
    assert before <= block.time <= datetime.now(UTC)
    assert block.time.utcoffset() == clock().utcoffset()


@pytest.mark.parametrize("topic", [CAMERA, NOTES])
async def test_an_update_without_a_participant_is_refused(topic: Topic[Any], clock: Clock) -> None:
    context = manager(clock)
    async with running(context) as runtime:
        with refused(ValueError, "participant_id"):
            await publish(runtime, topic, "of whom?", None)


async def test_a_blank_update_is_refused_and_changes_nothing(clock: Clock) -> None:
    context = manager(clock)
    async with running(context) as runtime:
        with refused(ValueError, "blank"):
            await publish(runtime, CAMERA, " \n")
    assert await context.blocks("p") == ()


async def test_a_publisher_is_told_that_its_update_could_not_be_stored(clock: Clock) -> None:
    saver = SteeredSaver()
    saver.error = OSError("disk full")
    context = manager(clock, checkpointer=saver)
    async with running(context) as runtime:
        with refused(OSError, "disk full"):
            await publish(runtime, NOTES, "a note")


async def test_a_publisher_waits_until_its_update_is_stored(clock: Clock) -> None:
    saver = SteeredSaver()
    saver.open.clear()
    context = manager(clock, checkpointer=saver)
    async with running(context) as runtime:
        task = asyncio.create_task(publish(runtime, NOTES, "a note"))
        await saver.reached.wait()
        assert not task.done()
        saver.open.set()
        await task
    assert "a note" in await shown(context)


async def test_a_publisher_waits_for_no_model(clock: Clock) -> None:
    summariser = Summariser()
    context = manager(clock, summariser.model)
    async with running(context) as runtime:
        for number in range(4):
            await publish(runtime, NOTES, f"{number} " + "x" * 900)
        await summariser.begun.wait()
        await publish(runtime, NOTES, "one more")
        assert "one more" in await shown(context)
        summariser.release.set()
        await context.settled()
    assert "one more" in await shown(context)
    assert "summary> S" in await shown(context)


async def test_updates_after_the_manager_was_closed_are_dropped(clock: Clock) -> None:
    saver = SteeredSaver()
    context = manager(clock, checkpointer=saver)
    async with running(context) as runtime:
        await context.close()
        await publish(runtime, NOTES, "too late")
    assert await manager(clock, checkpointer=saver).blocks("p") == ()


async def test_a_manager_can_listen_to_two_runtimes_and_to_one_without_topics(clock: Clock) -> None:
    context = manager(clock)
    async with running(context) as one, running(context) as other:
        await publish(one, NOTES, "by one")
        await publish(other, NOTES, "by the other")
    text = await shown(context)
    assert "by one" in text
    assert "by the other" in text
    runtime = AgentRuntime()
    runtime.register("context", ContextManager(ScriptedModel()).subscriber())
    async with runtime:
        pass


async def test_an_agent_publishes_in_answer_to_a_message_about_the_same_participant(clock: Clock) -> None:
    class Scribe(Agent):
        @subscribe(CAMERA)
        async def seen(self, update: ConversationContextUpdate, context: RuntimeContext) -> None:
            await context.publish(NOTES, ConversationContextUpdate(text=f"saw {update.text}"))

    context = manager(clock)
    runtime = running(context)
    runtime.register("scribe", Scribe())
    async with runtime:
        await publish(runtime, CAMERA, "smoke")
    assert "update> saw smoke" in await shown(context)


async def test_any_runtime_finds_a_subscriber_for_each_topic_as_the_host_marks_them(clock: Clock) -> None:
    """As another runtime would: by attribute, mark and annotation, without ours."""
    context = manager(clock)
    agent = context.subscriber()
    found = {
        topic.name: getattr(agent, name)
        for name in dir(agent)
        for topic in getattr(getattr(agent, name), "__xr_ai_topics__", ())
    }
    assert sorted(found) == ["lab.camera", "lab.gaze", "lab.notes"]
    metadata = MessageMetadata("m", "m", "p", "monitor", None, 1_772_456_400_000_000)
    update = ConversationContextUpdate(text="smoke")
    await found["lab.camera"](update, RuntimeContext("context", metadata, AgentRuntime()))
    assert "state> smoke" in await shown(context)


@pytest.mark.parametrize("fields", [{}, {"text": ""}, {"text": "a", "mode": "replace"}])
def test_the_payload_of_an_update_is_its_text_and_nothing_else(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        ConversationContextUpdate.model_validate(fields)
