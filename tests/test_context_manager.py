# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The context manager: what it takes in, what it gives back, and what it refuses."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from fakes.chat import ScriptedModel
from fakes.clock import Clock
from langgraph.checkpoint.sqlite import SqliteSaver

from xr_ai_conversation import CompactionPrompts, ContextManager
from xr_ai_conversation.xr import AgentExchange


def manager(clock: Clock, **options: Any) -> ContextManager:
    options = {"summary_context_topics": ["camera"], "incremental_context_topics": ["notes"], **options}
    return ContextManager(ScriptedModel(), clock=clock, **options)


async def texts(context: ContextManager, participant: str = "p") -> list[str]:
    return [block.text for block in await context.blocks(participant)]


async def said(context: ContextManager, participant: str = "p") -> list[str]:
    entries = (await context.snapshot(participant))["dialogue"]["entries"]
    return [entry["request"] for entry in entries if "request" in entry]


async def test_each_topic_is_a_source_of_its_own_for_each_participant(clock: Clock) -> None:
    context = manager(clock, summary_context_topics=["camera", "door"])
    await context.update("p", "camera", "a red chair")
    await context.update("p", "door", "closed")
    await context.update("p", "notes", "buy milk")
    await context.update("p", "notes", "buy bread")
    await context.update("p", "camera", "a blue chair")
    await context.update("q", "camera", "a cat")
    assert await texts(context, "q") == ['State of "camera" at 2026-03-02 14:00:00 +01:00:\nstate> a cat']
    shown = "\n".join(await texts(context))
    assert "red" not in shown
    assert all(words in shown for words in ("a blue chair", "closed", "buy milk", "buy bread"))


async def test_blocks_are_in_the_order_of_their_times_and_tell_them(clock: Clock) -> None:
    context = manager(clock)
    await context.update("p", "notes", "first")
    clock.move(minutes=1)
    await context.record_exchange("p", "second", "ok")
    clock.move(minutes=1)
    await context.update("p", "camera", "third")
    await context.record_exchange("p", "zeroth", "ok", timestamp=clock.now - timedelta(hours=1))
    blocks = await context.blocks("p")
    assert [block.time for block in blocks] == sorted(block.time for block in blocks)
    assert ["zeroth" in blocks[0].text, "first" in blocks[1].text, "third" in blocks[3].text] == [True] * 3
    assert blocks[1].time == Clock().now


async def test_times_of_any_kind_are_shown_in_the_zone_of_the_clock(clock: Clock) -> None:
    context = manager(clock)
    for timestamp in (
        datetime(2026, 3, 2, 12, 30),  # noqa: DTZ001 - one without a zone is the point
        datetime(2026, 3, 2, 11, 30, tzinfo=UTC),
        datetime(2026, 3, 2, 20, 30, tzinfo=timezone(timedelta(hours=9))),
    ):
        await context.update("p", "notes", "tick", timestamp=timestamp)
    assert await texts(context) == ['Update on "notes" at 2026-03-02 12:30:00 +01:00:\nupdate> tick'] * 3


async def test_a_naive_clock_is_refused_with_a_clear_error() -> None:
    context = manager(Clock(datetime(2026, 3, 2)))  # noqa: DTZ001 - the point
    with pytest.raises(ValueError, match="must have a time zone"):
        await context.update("p", "notes", "x")


async def test_the_system_clock_is_the_default_and_shows_the_local_zone() -> None:
    context = ContextManager(ScriptedModel())
    await context.record_exchange("p", "now", "ok")
    (block,) = await context.blocks("p")
    assert abs(block.time - datetime.now(UTC)) < timedelta(minutes=1)
    assert block.time.utcoffset() == datetime.now().astimezone().utcoffset()


async def test_lone_surrogates_are_replaced_everywhere(clock: Clock) -> None:
    context = manager(clock)
    await context.record_exchange("p", "ok \ud83d", "fine \udc00")
    await context.update("p", "notes", "\udc00x")
    shown = "\n".join(await texts(context))
    assert shown.encode().decode() == shown
    assert "user> ok \ufffd\nassistant> fine \ufffd" in shown
    assert "update> \ufffdx" in shown


async def test_the_same_turn_is_one_exchange_and_the_same_words_without_turn_ids_are_two(
    clock: Clock,
) -> None:
    context = manager(clock)
    await context.record_exchange("p", "yes", "ok", turn_id="1")
    await context.record_exchange("p", "yes", "ok", turn_id="1")
    await context.record_exchange("p", "yes", "ok", turn_id="2")
    await context.record_exchange("p", "yes", "ok")
    await context.record_exchange("p", "yes", "ok")
    assert await said(context) == ["yes"] * 4


async def test_history_adds_what_is_new_and_only_that(clock: Clock) -> None:
    context = manager(clock)
    await context.record_exchange("p", "a", "1", turn_id="t1")
    await context.reconcile(
        "p",
        [
            AgentExchange("a", "1", turn_id="t1"),
            AgentExchange("b", "2"),
            AgentExchange("c", "3", turn_id="t3"),
        ],
    )
    await context.reconcile("p", [AgentExchange("b", "2", turn_id="t2"), AgentExchange("c", "3")])
    await context.reconcile("p", [AgentExchange("c", "3"), AgentExchange("d", None), AgentExchange("e", "5")])
    assert await said(context) == ["a", "b", "c", "e"]


async def test_history_before_or_after_the_live_record_of_a_turn_is_one_exchange(clock: Clock) -> None:
    context = manager(clock)
    await context.reconcile("p", [AgentExchange("a", "1", turn_id="t1")])
    await context.record_exchange("p", "a", "1", turn_id="t1")
    await context.record_exchange("p", "b", "2", turn_id="t2")
    await context.reconcile(
        "p", [AgentExchange("a", "1", turn_id="t1"), AgentExchange("b", "2", turn_id="t2")]
    )
    assert await said(context) == ["a", "b"]


async def test_an_exchange_of_history_takes_the_time_it_has_or_that_of_its_neighbour(clock: Clock) -> None:
    context = manager(clock)
    await context.reconcile(
        "p",
        [
            AgentExchange("a", "1", timestamp_us=1_700_000_000_000_000),
            AgentExchange("b", "2"),
            AgentExchange("c", "3"),
        ],
    )
    assert {block.time for block in await context.blocks("p")} == {datetime.fromtimestamp(1_700_000_000, UTC)}


async def test_a_repeat_in_history_is_a_repeat(clock: Clock) -> None:
    context = manager(clock)
    await context.reconcile("p", [AgentExchange("yes", "ok")])
    await context.reconcile("p", [AgentExchange("yes", "ok"), AgentExchange("yes", "ok")])
    await context.reconcile(
        "p", [AgentExchange("yes", "ok"), AgentExchange("yes", "ok"), AgentExchange("yes", "ok")]
    )
    assert await said(context) == ["yes"] * 3


async def test_clear_forgets_one_participant_and_is_idempotent(clock: Clock) -> None:
    context = manager(clock)
    for participant in ("p", "q"):
        await context.record_exchange(participant, "a", "1", turn_id="t")
        await context.update(participant, "camera", "x")
    await context.clear("p")
    await context.clear("p")
    await context.clear("nobody")
    assert await context.blocks("p") == ()
    assert len(await context.blocks("q")) == 2
    await context.record_exchange("p", "a", "1", turn_id="t")
    assert await said(context) == ["a"]


async def test_after_close_nothing_is_known_and_what_comes_later_is_dropped(clock: Clock) -> None:
    async with manager(clock) as context:
        await context.record_exchange("p", "a", "1")
    await context.record_exchange("p", "b", "2")
    await context.update("p", "notes", "x")
    await context.reconcile("p", [AgentExchange("c", "3")])
    assert await context.blocks("p") == ()
    await context.settled()
    await context.clear("p")
    await context.close()


async def test_a_long_idle_participant_keeps_everything(clock: Clock) -> None:
    context = manager(clock)
    await context.record_exchange("p", "make it round", "done")
    clock.move(days=400)
    assert await said(context) == ["make it round"]


@pytest.mark.parametrize("participant", ["", "x" * 513, "é" * 257, "a\0b", "\ud800"])
async def test_an_impossible_participant_id_is_refused(clock: Clock, participant: str) -> None:
    context = manager(clock)
    for call in (
        context.blocks(participant),
        context.record_exchange(participant, "a", "b"),
        context.update(participant, "notes", "x"),
        context.reconcile(participant, []),
        context.clear(participant),
        context.settled(participant),
    ):
        with pytest.raises(ValueError, match="participant_id"):
            await call


@pytest.mark.parametrize(
    "participant", ["../../etc/passwd", "'; DROP TABLE checkpoints; --", "é" * 256, " ", "日本"]
)
async def test_any_other_string_is_a_participant_id(clock: Clock, participant: str) -> None:
    context = manager(clock)
    await context.record_exchange(participant, "a", "1")
    assert await said(context, participant) == ["a"]


async def test_bad_input_is_refused_before_anything_is_changed(clock: Clock) -> None:
    context = manager(clock)
    with pytest.raises(ValueError, match=r"topic must be a configured one \('camera', 'notes'\), got 'note'"):
        await context.update("p", "note", "x")
    with pytest.raises(ValueError, match="text of an update on 'notes' must not be blank"):
        await context.update("p", "notes", " \n")
    with pytest.raises(ValueError, match="response must not be blank"):
        await context.record_exchange("p", "a", "\u200b")
    with pytest.raises(TypeError, match="timestamp must be a datetime"):
        await context.update("p", "notes", "x", timestamp=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="participant_id must be a string"):
        await context.blocks(5)  # type: ignore[arg-type]
    assert await context.blocks("p") == ()


async def test_an_empty_question_is_recorded(clock: Clock) -> None:
    context = manager(clock)
    await context.record_exchange("p", "", "Pardon?")
    assert await said(context) == [""]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"summary_context_topics": ["notes"]}, "topic 'notes' is configured twice"),
        ({"summary_context_topics": "camera"}, "must be a collection of topic names"),
        ({"topic_budget_bytes": {"notes": 4000}}, "must have a value for each topic, none for .'camera'."),
        ({"dialogue_budget_bytes": 10}, "dialogue_budget_bytes must be at least .* got 10"),
        (
            {"compaction_input_budget_bytes": 4255},
            "compaction_input_budget_bytes must be at least 4256 bytes",
        ),
        ({"history": 0}, "history must be at least 1"),
        ({"checkpointer": SqliteSaver}, "checkpointer must be asynchronous"),
        (
            {"checkpointer": "x.db"},
            "checkpointer must be a LangGraph saver, as open_saver opens one.* got str",
        ),
    ],
)
def test_what_cannot_be_configured_is_refused_with_what_is_allowed(
    clock: Clock, options: dict[str, Any], message: str
) -> None:
    if options.get("checkpointer") is SqliteSaver:
        options = {"checkpointer": SqliteSaver.__new__(SqliteSaver)}
    with pytest.raises((TypeError, ValueError), match=message):
        manager(clock, **options)


def test_the_smallest_compaction_input_is_half_the_largest_budget_and_256(clock: Clock) -> None:
    manager(clock, compaction_input_budget_bytes=4256)
    manager(clock, topic_budget_bytes={"camera": 20_000, "notes": 600}, compaction_input_budget_bytes=10_256)


def test_a_blank_compaction_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="compaction prompt 'dialogue' must not be blank"):
        CompactionPrompts(dialogue=" ")


async def test_looking_at_unknown_participants_leaves_nothing_behind(clock: Clock) -> None:
    context = manager(clock)
    for number in range(1_000):
        assert await context.blocks(f"p{number}") == ()
    for number in range(100):
        await context.record_exchange(f"p{number}", "a", "1")
        await context.clear(f"p{number}")
    assert context._participants.all() == ()
    saver = context._ledger._store.saver
    assert not any(getattr(saver, name) for name in ("storage", "writes", "blobs"))


def test_a_manager_serves_one_event_loop_after_the_other(clock: Clock) -> None:
    context = manager(clock)

    async def talk(number: int) -> list[str]:
        async with asyncio.TaskGroup() as group:
            for offset in range(5):
                group.create_task(context.record_exchange("p", f"{number}.{offset}", "ok"))
        return await said(context)

    asyncio.run(talk(1))
    assert len(asyncio.run(talk(2))) == 10


async def test_a_time_before_the_first_and_a_topic_that_is_no_string_are_told_by_name() -> None:
    context = ContextManager(ScriptedModel(), incremental_context_topics=["notes"])
    with pytest.raises(ValueError, match="timestamp must be"):
        await context.record_exchange("p", "Hi", "Hello", timestamp=datetime.min)  # noqa: DTZ901 - it is the case
    with pytest.raises(TypeError, match="topic of an update must be a string, got list"):
        await context.update("p", ["notes"], "a note")  # type: ignore[arg-type]
    assert await context.blocks("p") == ()
