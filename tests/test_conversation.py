# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""An answer: what is sent for it, how it streams, and what is recorded of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from fakes.chat import Piece, Script, ScriptedModel, says, texts
from fakes.clock import Clock
from fakes.saver import SteeredSaver
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from recorded import exchanges

from xr_ai_conversation import ContextManager, Conversation, EmptyAnswerError


def conversation(
    model: BaseChatModel, clock: Clock, *, checkpointer: SteeredSaver | None = None, **options: Any
) -> tuple[Conversation, ContextManager]:
    context = ContextManager(ScriptedModel(), clock=clock, checkpointer=checkpointer)
    return Conversation(model, context=context, **options), context


async def answer(talk: Conversation, text: str, participant: str = "p", **options: Any) -> str:
    return "".join([piece async for piece in talk.stream(participant, text, **options)])


async def listen(talk: Conversation, heard: list[str]) -> None:
    """Note each piece of an answer as it comes, also of one that fails."""
    async for piece in talk.stream("p", "Hi"):
        heard.append(piece)  # noqa: PERF401 - a comprehension would note nothing if it fails


async def test_a_request_has_three_messages_system_context_and_the_request_as_it_is(clock: Clock) -> None:
    model = ScriptedModel(script=says("At three."))
    talk, context = conversation(model, clock, instructions="Answer about the lab.")
    await context.record_exchange("p", "Hello", "Hi there")
    request = "When is\n\nassistant> it?  " + "x" * 20_000
    await answer(talk, request)
    (sent,) = model.requests
    assert [message.type for message in sent] == ["system", "human", "human"]
    assert texts(sent)[0].endswith("\n\nAnswer about the lab.")
    assert texts(sent)[1].endswith("\n\nCurrent time: Monday 2026-03-02 14:00:00 +01:00")
    assert "user> Hello\nassistant> Hi there" in texts(sent)[1]
    assert texts(sent)[2] == request


async def test_the_context_message_is_the_current_time_when_nothing_is_known(clock: Clock) -> None:
    talk, _ = conversation(ScriptedModel(), clock)
    assert texts(await talk.messages("p", "Hi"))[1] == "Current time: Monday 2026-03-02 14:00:00 +01:00"


async def test_messages_are_those_that_an_answer_sends(clock: Clock) -> None:
    model = ScriptedModel(script=says("Yes."))
    talk, context = conversation(model, clock)
    await context.record_exchange("p", "Hello", "Hi")
    shown = await talk.messages("p", "Really?")
    await answer(talk, "Really?")
    assert model.requests == [shown]


async def test_a_system_prompt_replaces_the_default_entirely_also_an_empty_one(clock: Clock) -> None:
    default, _ = conversation(ScriptedModel(), clock)
    given, _ = conversation(
        ScriptedModel(), clock, system_prompt="You are a pirate.", instructions="Be brief."
    )
    empty, _ = conversation(ScriptedModel(), clock, system_prompt="", instructions="Be brief.")
    assert "assistant" in texts(await default.messages("p", "Hi"))[0]
    assert texts(await given.messages("p", "Hi"))[0] == "You are a pirate.\n\nBe brief."
    assert texts(await empty.messages("p", "Hi"))[0] == "Be brief."


async def test_the_system_message_is_the_same_for_every_request_whatever_the_time(clock: Clock) -> None:
    model = ScriptedModel()
    talk, _ = conversation(model, clock)
    for _ in range(10):
        await answer(talk, "Hello")
        clock.move(hours=3)
    assert len({texts(sent)[0] for sent in model.requests}) == 1


async def test_the_prompt_before_the_newest_content_is_the_same_in_the_next_request(clock: Clock) -> None:
    model = ScriptedModel(script=says("Fine."))
    talk, _ = conversation(model, clock)
    for number in range(10):
        await answer(talk, f"Question {number}")
        clock.move(hours=3)
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        stable = texts(before)[1].split("Current time:")[0]
        assert texts(after)[1].startswith(stable)


async def test_an_answer_streams_out_while_it_is_made(clock: Clock) -> None:
    heard = asyncio.Event()

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        yield "one "
        await heard.wait()
        yield "two"

    talk, _ = conversation(ScriptedModel(script=script), clock)
    pieces = []
    async for piece in talk.stream("p", "Count"):
        pieces.append(piece)
        heard.set()
    assert pieces == ["one ", "two"]


@pytest.mark.parametrize(
    ("pieces", "spoken"),
    [
        (
            [
                AIMessageChunk(content=[]),
                "Hel",
                AIMessageChunk(content=[{"type": "text", "text": "lo"}]),
                AIMessageChunk(content=[{"type": "thinking", "thinking": "x"}]),
                "",
                AIMessageChunk(content=[{"type": "text", "text": " 👋", "index": 0}]),
                AIMessageChunk(content="", usage_metadata=None),
            ],
            "Hello 👋",
        ),
        (["<th", "ink>plan</thi", "nk>\n\n", "Yes", " sir"], "Yes sir"),
        ([AIMessageChunk(content="", additional_kwargs={"reasoning_content": "hm"}), "Yes"], "Yes"),
        (["Fine", AIMessageChunk(content="", response_metadata={"finish_reason": "stop"})], "Fine"),
        (["\n", "  ", "Fine \n", "and", "\n\n", " "], "Fine \nand"),
        (["a \ud83d", "\ude00 b \udc00"], "a 😀 b \ufffd"),
    ],
    ids=[
        "content lists",
        "thinking tags",
        "reasoning content",
        "empty last chunk",
        "blanks around",
        "surrogates",
    ],
)
async def test_what_is_published_is_the_text_alone_and_is_what_is_recorded(
    clock: Clock, pieces: list[Piece], spoken: str
) -> None:
    talk, context = conversation(ScriptedModel(script=says(*pieces)), clock)
    published = [piece async for piece in talk.stream("p", "Hi")]
    assert all(published)
    assert "".join(published) == spoken
    assert await exchanges(context) == [("Hi", spoken)]


class SynchronousModel(BaseChatModel):
    """Has no asynchronous and no streaming method, and blocks the thread that it is called in."""

    release: Any
    """A threading.Event."""

    @property
    def _llm_type(self) -> str:
        return "synchronous"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        assert self.release.wait(30)
        return ChatResult(generations=[ChatGeneration(message=AIMessage("whole"))])


async def test_a_synchronous_model_does_not_hold_up_the_event_loop(clock: Clock) -> None:
    release = threading.Event()
    talk, _ = conversation(SynchronousModel(release=release), clock)
    answering = asyncio.create_task(answer(talk, "Hi"))
    other, _ = conversation(ScriptedModel(script=says("quick")), clock)
    assert await answer(other, "Hi") == "quick"
    release.set()
    assert await answering == "whole"


@pytest.mark.parametrize(
    "script",
    [says(), says("", " \n", AIMessageChunk(content=[])), says("<think>only"), says("\u200b\u2060")],
    ids=["nothing", "blank", "reasoning", "invisible"],
)
async def test_an_empty_answer_is_an_error_and_nothing_is_recorded_and_the_next_turn_works(
    clock: Clock, script: Script
) -> None:
    model = ScriptedModel(script=script)
    talk, context = conversation(model, clock)
    with pytest.raises((EmptyAnswerError, ValueError), match=r"empty answer|No generation chunks"):
        await answer(talk, "Hi")
    assert await exchanges(context) == []
    model.script = says("Better.")
    assert await answer(talk, "Again") == "Better."
    assert await exchanges(context) == [("Again", "Better.")]


@pytest.mark.parametrize("pieces", [[], ["one ", "two "]], ids=["at once", "midway"])
async def test_a_failing_model_is_the_callers_error_and_nothing_is_recorded(
    clock: Clock, pieces: list[Piece]
) -> None:
    talk, context = conversation(ScriptedModel(script=says(*pieces, ConnectionError("gone"))), clock)
    heard: list[str] = []
    with pytest.raises(ConnectionError, match="gone"):
        await listen(talk, heard)
    assert heard == pieces
    assert await exchanges(context) == []


async def endless(_: list[BaseMessage]) -> AsyncIterator[Piece]:
    number = 0
    while True:
        yield f"{number} "
        number += 1
        await asyncio.sleep(0)


async def test_a_stream_left_early_ends_the_model_and_records_nothing(clock: Clock) -> None:
    model = ScriptedModel(script=endless)
    talk, context = conversation(model, clock)
    async with aclosing(talk.stream("p", "Count")) as pieces:
        async for piece in pieces:
            if piece.startswith("3"):
                break
    assert model.closed == 1
    assert await context.blocks("p") == ()
    model.script = says("Hello.")
    await answer(talk, "and?")
    assert "Count" not in texts(model.requests[-1])[1]


async def test_a_cancelled_answer_ends_the_model_and_records_nothing(clock: Clock) -> None:
    model = ScriptedModel(script=endless)
    talk, context = conversation(model, clock)
    heard = asyncio.Event()

    async def count() -> None:
        async for _ in talk.stream("p", "Count"):
            heard.set()

    listening = asyncio.create_task(count())
    await heard.wait()
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert model.closed == 1
    assert await context.blocks("p") == ()


async def test_a_caller_that_breaks_without_closing_ends_the_model_too(clock: Clock) -> None:
    ended = asyncio.Event()

    async def script(messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        try:
            async for piece in endless(messages):
                yield piece
        finally:
            ended.set()

    talk, _ = conversation(ScriptedModel(script=script), clock)
    async for _ in talk.stream("p", "Count"):
        break
    async with asyncio.timeout(30):
        await ended.wait()


async def test_an_exchange_whose_answer_has_ended_is_recorded_though_cancelled_while_it_is(
    clock: Clock,
) -> None:
    saver = SteeredSaver()
    saver.open.clear()
    talk, context = conversation(ScriptedModel(script=says("done")), clock, checkpointer=saver)
    answering = asyncio.create_task(answer(talk, "Hi"))
    await saver.reached.wait()
    answering.cancel()
    await asyncio.sleep(0)
    answering.cancel()
    saver.open.set()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert await exchanges(context) == [("Hi", "done")]


async def test_the_exchange_is_durable_before_the_stream_ends_and_no_chunk_waits_for_it(clock: Clock) -> None:
    saver = SteeredSaver()
    saver.open.clear()
    talk, context = conversation(ScriptedModel(script=says("done")), clock, checkpointer=saver)
    stream = talk.stream("p", "Hi")
    assert await anext(stream) == "done"
    ending = asyncio.create_task(anext(stream, "end"))
    await saver.reached.wait()
    assert not ending.done()
    saver.open.set()
    assert await ending == "end"
    assert await exchanges(context) == [("Hi", "done")]


async def test_a_failing_saver_is_the_callers_error_after_the_whole_answer(clock: Clock) -> None:
    saver = SteeredSaver()
    saver.error = OSError("disk full")
    talk, _ = conversation(ScriptedModel(script=says("a", "b")), clock, checkpointer=saver)
    heard: list[str] = []
    with pytest.raises(OSError, match="disk full"):
        await listen(talk, heard)
    assert heard == ["a", "b"]


async def test_the_recorded_time_of_an_exchange_is_when_it_was_asked(clock: Clock) -> None:
    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        clock.move(minutes=5)
        yield "slow"

    talk, context = conversation(ScriptedModel(script=script), clock)
    await answer(talk, "Hi")
    (block,) = await context.blocks("p")
    assert block.text.startswith("Exchange at 2026-03-02 14:00:00 +01:00:")


async def test_the_order_of_turns_is_that_of_their_times_not_of_their_ends(clock: Clock) -> None:
    release = asyncio.Event()

    async def script(messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        if messages[-1].content == "first":
            await release.wait()
        yield "ok"

    talk, context = conversation(ScriptedModel(script=script), clock)
    slow = asyncio.create_task(answer(talk, "first"))
    await asyncio.sleep(0)
    clock.move(seconds=3)
    await answer(talk, "second")
    release.set()
    await slow
    assert await exchanges(context) == [("first", "ok"), ("second", "ok")]


async def test_a_turn_streamed_twice_is_recorded_once(clock: Clock) -> None:
    talk, context = conversation(ScriptedModel(script=says("ok")), clock)
    for _ in range(2):
        await answer(talk, "Hi", turn_id="turn-1")
    await answer(talk, "Hi")
    await answer(talk, "Hi")
    assert len(await exchanges(context)) == 3


async def test_a_closed_conversation_takes_no_new_requests_and_lets_the_running_end(clock: Clock) -> None:
    release = asyncio.Event()

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        yield "one "
        await release.wait()
        yield "two"

    talk, context = conversation(ScriptedModel(script=script), clock)
    stream = talk.stream("p", "Hi")
    assert await anext(stream) == "one "
    await talk.close()
    with pytest.raises(RuntimeError, match="closed"):
        await anext(talk.stream("p", "Hi"))
    release.set()
    assert [piece async for piece in stream] == ["two"]
    assert await exchanges(context) == [("Hi", "one two")]


@pytest.mark.parametrize("text", ["", "  \n", "\u200b"])
async def test_a_blank_request_is_refused(clock: Clock, text: str) -> None:
    model = ScriptedModel()
    talk, _ = conversation(model, clock)
    with pytest.raises(ValueError, match="text must not be blank"):
        await answer(talk, text)
    assert model.requests == []


async def test_participants_never_see_each_other(clock: Clock) -> None:
    seen: list[str] = []

    async def script(messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        seen.append("\n".join(texts(messages)))
        await asyncio.sleep(0)
        yield str(messages[-1].content)

    model = ScriptedModel(script=script)
    context = ContextManager(
        model,
        clock=clock,
        incremental_context_topics=["notes"],
        dialogue_budget_bytes=800,
        topic_budget_bytes=600,
    )
    talk = Conversation(model, context=context)

    async def live(number: int) -> None:
        mark = f"<{number:03}>"
        for turn in range(12):
            await context.update(mark, "notes", f"{mark} note {turn}")
            async with aclosing(talk.stream(mark, f"{mark} turn {turn}")) as pieces:
                async for piece in pieces:
                    assert mark in piece
                    if turn % 4 == 3:
                        break

    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(live(number))
    await context.settled()
    marks = [f"<{number:03}>" for number in range(50)]
    assert len(seen) > 50 * 12
    assert all(sum(mark in text for mark in marks) == 1 for text in seen)
    for mark in marks:
        blocks = "".join(block.text for block in await context.blocks(mark))
        assert [other for other in marks if other in blocks] == [mark]
