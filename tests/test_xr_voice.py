# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What reaches a voice layer through router and runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

import pytest
from fakes.voice import VoiceLayer

from xr_ai_conversation.xr import (
    VOICE_OUTPUT_TOPIC,
    Admission,
    AgentExchange,
    AgentRouter,
    AgentRuntime,
    AgentTurn,
    DestinationResult,
    Interrupted,
    ParticipantLeft,
    ResponseOutput,
    RoutingAid,
    Topic,
    UserQuery,
)

QUERIES = Topic("queries", UserQuery)
INTERRUPTED = Topic("interrupted", Interrupted)
LEFT = Topic("left", ParticipantLeft)


class Talker:
    """Streams two pieces for each turn, and ends what it has begun, whatever happens."""

    def __init__(self, runtime: AgentRuntime, name: str = "talker") -> None:
        self.runtime, self.name = runtime, name
        self.routing = RoutingAid("talks")
        self.half_way: dict[str, asyncio.Event] = {}
        self.go_on: dict[str, asyncio.Event] = {}
        self.ended: dict[str, asyncio.Event] = {}
        self.answered: dict[str, asyncio.Event] = {}
        self.seen: dict[str, tuple[AgentExchange, ...]] = {}
        self.error: Exception | None = None

    def event(self, events: dict[str, asyncio.Event], text: str) -> asyncio.Event:
        return events.setdefault(text, asyncio.Event())

    async def admit(self, turn: AgentTurn) -> Admission:
        return Admission("accept", "One moment." if "slowly" in turn.text else "")

    async def say(self, turn: AgentTurn, text: str, *, final: bool) -> None:
        output = ResponseOutput(
            kind="reply",
            text=text,
            final=final,
            request_id=turn.turn_id,
            response_id=f"{turn.turn_id}/answer",
        )
        await self.runtime.publish(
            VOICE_OUTPUT_TOPIC, output, participant_id=turn.participant_id, source=self.name
        )

    async def answer(self, turn: AgentTurn, started: Callable[[], object] | None = None) -> DestinationResult:
        self.seen[turn.text] = turn.exchanges
        text = f"You said: {turn.text}"
        if started is not None:
            started()
        await self.say(turn, text[:4], final=False)
        try:
            self.event(self.half_way, turn.text).set()
            if "hold" in turn.text:
                await self.event(self.go_on, turn.text).wait()
            if self.error is not None:
                raise self.error
            await self.say(turn, text[4:], final=False)
        finally:
            await self.say(turn, "", final=True)
            self.event(self.ended, turn.text).set()
        self.event(self.answered, turn.text).set()
        return DestinationResult(AgentExchange(turn.text, text, turn.timestamp_us, turn.turn_id))

    async def release(self, participant_id: str) -> None: ...

    async def participant_left(self, participant_id: str) -> None: ...


class NoDecisions:
    async def decide(self, *_: object, **__: object) -> None:  # type: ignore[explicit-override, unused-ignore]
        raise AssertionError("there is nothing to choose between")


class House:
    """A runtime with a voice layer, a router and a destination that talks."""

    def __init__(self) -> None:
        self.runtime = AgentRuntime()
        self.voice = self.runtime.register("voice", VoiceLayer())
        self.talker = Talker(self.runtime)
        self.cleaned: dict[str, asyncio.Event] = {}
        self.router = self.runtime.register(
            "router",
            AgentRouter(
                {"talker": self.talker},
                NoDecisions(),  # type: ignore[arg-type]
                query_topic=QUERIES,
                output_topic=VOICE_OUTPUT_TOPIC,
                interrupted_topic=INTERRUPTED,
                left_topic=LEFT,
                cleanup_participant=self.clean_up,
            ),
        )

    async def clean_up(self, participant_id: str) -> None:
        self.cleaned.setdefault(participant_id, asyncio.Event()).set()

    async def __aenter__(self) -> Self:
        await self.runtime.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.router.stop()
        await self.runtime.stop()
        assert self.voice.errors == []
        assert not [spoken for spoken in self.voice.responses if spoken.open]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def ask(self, text: str, participant: str = "p", *, timestamp_us: int | None = None) -> None:
        query = UserQuery(text=text, timestamp_us=timestamp_us)
        await self.runtime.publish(QUERIES, query, participant_id=participant, source="voice")

    async def answered(self, text: str) -> None:
        await self.talker.event(self.talker.answered, text).wait()

    async def half_way(self, text: str) -> None:
        await self.talker.event(self.talker.half_way, text).wait()


async def test_the_strict_listener_rejects_what_a_voice_layer_rejects() -> None:
    voice = VoiceLayer()
    reply = {"kind": "reply", "request_id": "t"}
    runtime = AgentRuntime()
    runtime.register("voice", voice)

    async def say(participant: str | None = "p", **fields: object) -> None:
        message = ResponseOutput.model_validate(reply | fields)
        await runtime.publish(VOICE_OUTPUT_TOPIC, message, participant_id=participant, source="s")

    async with runtime:
        wrong: list[tuple[str | None, dict[str, object]]] = [
            (None, {"text": "to nobody"}),
            ("p", {"response_id": "never begun"}),
        ]
        await say(response_id="a", text="A", final=False)
        wrong.append(("p", {"response_id": "b", "text": "across", "final": False}))
        wrong.append(("p", {"response_id": "a", "text": "other", "request_id": "u"}))
        for participant, fields in wrong:
            with pytest.raises(ExceptionGroup):
                await say(participant, **fields)
        await say(response_id="a")
        for late in ({"text": "late"}, {"text": "late", "final": False}, {}):
            with pytest.raises(ExceptionGroup):
                await say(response_id="a", **late)
    assert voice.said("p") == ["A"]
    assert len(voice.errors) == 7


async def test_a_query_is_answered_as_a_reply_to_its_message_by_the_destination() -> None:
    async with House() as house:
        await house.ask("hello", timestamp_us=5)
        await house.answered("hello")
    (spoken,) = house.voice.responses
    assert (spoken.source, "".join(spoken.pieces)) == ("talker", "You said: hello")
    assert spoken.request


async def test_a_publisher_of_queries_is_not_held_up_by_the_answer() -> None:
    async with House() as house:
        await house.ask("hold on")
        await house.half_way("hold on")
        assert house.voice.responses[0].open


async def test_a_preamble_is_said_before_the_answer_as_a_reply_to_the_same_turn() -> None:
    async with House() as house:
        await house.ask("slowly")
        await house.answered("slowly")
    preamble, answer = house.voice.responses
    assert (preamble.source, preamble.pieces) == ("router", ["One moment."])
    assert preamble.request == answer.request


async def test_a_new_query_ends_the_answer_before_and_nothing_of_it_is_remembered() -> None:
    async with House() as house:
        await house.ask("hold on")
        await house.half_way("hold on")
        await house.ask("next")
        await house.answered("next")
    assert house.voice.said("p") == ["You ", "You said: next"]
    assert house.voice.responses[0].pieces[-1] == ""
    assert house.talker.seen["next"] == ()


async def test_completed_exchanges_are_shown_apart_from_the_query_with_its_id_and_time() -> None:
    async with House() as house:
        await house.ask("one", timestamp_us=7)
        await house.answered("one")
        await house.ask("two")
        await house.answered("two")
    request = house.voice.responses[0].request
    assert house.talker.seen["two"] == (AgentExchange("one", "You said: one", 7, request),)


async def test_an_interruption_ends_the_answer_of_its_participant_only() -> None:
    async with House() as house:
        for participant in "pq":
            await house.ask(f"hold {participant}", participant)
            await house.half_way(f"hold {participant}")
        await house.runtime.publish(INTERRUPTED, Interrupted(), participant_id="p")
        await house.router.interrupt("p")
        assert [spoken.open for spoken in house.voice.responses] == [False, True]
        house.talker.event(house.talker.go_on, "hold q").set()
        await house.answered("hold q")
    assert house.voice.said("p") == ["You "]
    assert house.voice.said("q") == ["You said: hold q"]


async def test_an_interruption_without_a_participant_ends_everybodys_answer() -> None:
    async with House() as house:
        for participant in "pq":
            await house.ask(f"hold {participant}", participant)
            await house.half_way(f"hold {participant}")
        await house.runtime.publish(INTERRUPTED, Interrupted())
        await house.router.interrupt()
        assert not any(spoken.open for spoken in house.voice.responses)


async def test_a_departure_ends_the_answer_and_whoever_comes_under_the_same_id_begins_anew() -> None:
    async with House() as house:
        await house.ask("one")
        await house.answered("one")
        await house.ask("hold on")
        await house.half_way("hold on")
        await house.runtime.publish(LEFT, ParticipantLeft(), participant_id="p")
        await house.ask("I am new")
        await house.answered("I am new")
        assert house.cleaned["p"].is_set()
    assert house.talker.seen["I am new"] == ()


async def test_queries_and_departures_of_nobody_are_refused() -> None:
    async with House() as house:
        messages: list[tuple[Topic[Any], Any]] = [(QUERIES, UserQuery(text="hi")), (LEFT, ParticipantLeft())]
        for topic, message in messages:
            with pytest.raises(ExceptionGroup) as caught:
                await house.runtime.publish(topic, message)
            assert isinstance(caught.value.exceptions[0], ValueError)


async def test_a_failure_midway_ends_the_stream_and_the_router_says_nothing_more() -> None:
    async with House() as house:
        house.talker.error = RuntimeError("model")
        await house.ask("hello")
        await house.talker.event(house.talker.ended, "hello").wait()
    assert house.voice.said("p") == ["You "]


async def test_participants_that_talk_over_themselves_at_once_never_hear_each_other() -> None:
    async with House() as house:
        for number in range(5):
            await asyncio.gather(*(house.ask(f"{who} hold {number}", who) for who in map(str, range(20))))
            for who in range(20):
                await house.half_way(f"{who} hold {number}")
        await asyncio.gather(*(house.ask(f"{who} last", str(who)) for who in range(20)))
        for who in range(20):
            await house.answered(f"{who} last")
    for who in range(20):
        assert house.voice.said(str(who)) == ["You "] * 5 + [f"You said: {who} last"]
