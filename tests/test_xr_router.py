# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The local router: who gets a turn, what is said for it, and how turns end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from fakes.chat import ScriptedModel, says, texts

from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.xr import (
    VOICE_OUTPUT_TOPIC,
    Admission,
    AgentExchange,
    AgentRouter,
    AgentTurn,
    DecisionAnswer,
    DecisionQuestion,
    DecisionResult,
    DestinationResult,
    RoutableAgent,
    RoutingAid,
    Topic,
    UserQuery,
    current_turn_context,
)

SORRY = "Sorry, something went wrong and I could not answer that."
CANNOT = "Sorry, I cannot help with that."

Action = Callable[[AgentTurn], Awaitable[DestinationResult | None]]


def turn(text: str, participant: str = "p", turn_id: str | None = None) -> AgentTurn:
    return AgentTurn(participant, turn_id or f"turn of {text}", text, 5)


class Destination:
    """Does as it is told, and notes each call in a log that it may share."""

    def __init__(
        self,
        name: str = "d",
        log: list[str] | None = None,
        *,
        says: Admission | Callable[[AgentTurn], Admission] | BaseException = Admission("accept"),  # noqa: B008
        focus: Any = "keep",
        action: Action | None = None,
        routing: RoutingAid | None = None,
    ) -> None:
        self.name, self.log = name, [] if log is None else log
        self.says, self.focus, self.action = says, focus, action
        self.routing = routing
        self.turns: list[AgentTurn] = []
        self.leaving: Callable[[str], Awaitable[None]] | None = None

    async def admit(self, turn: AgentTurn) -> Admission:
        self.log.append(f"{self.name} admits {turn.text}")
        if isinstance(self.says, BaseException):
            raise self.says
        return self.says if isinstance(self.says, Admission) else self.says(turn)

    async def answer(
        self, turn: AgentTurn, started: Callable[[], object] | None = None
    ) -> DestinationResult | None:
        self.log.append(f"{self.name} answers {turn.text}")
        self.turns.append(turn)
        if self.action is not None:
            return await self.action(turn)
        if started is not None:
            started()
        exchange = AgentExchange(turn.text, f"{self.name}: {turn.text}", turn.timestamp_us, turn.turn_id)
        return DestinationResult(exchange, self.focus)

    async def release(self, participant_id: str) -> None:
        self.log.append(f"{self.name} releases {participant_id}")

    async def participant_left(self, participant_id: str) -> None:
        self.log.append(f"{self.name} sees {participant_id} leave")
        if self.leaving is not None:
            await self.leaving(participant_id)


class Held(Destination):
    """Holds an answer until it is released, and its clean-up, when it is cancelled, until that is allowed."""

    def __init__(self, name: str = "d", log: list[str] | None = None, **options: Any) -> None:
        super().__init__(name, log, action=self.hold, **options)
        self.entered: dict[str, asyncio.Event] = {}
        self.cancelled: dict[str, asyncio.Event] = {}
        self.may_clean, self.release_all = asyncio.Event(), asyncio.Event()

    def on(self, events: dict[str, asyncio.Event], text: str) -> asyncio.Event:
        return events.setdefault(text, asyncio.Event())

    async def hold(self, turn: AgentTurn) -> DestinationResult:
        self.on(self.entered, turn.text).set()
        try:
            if "hold" in turn.text:
                await self.release_all.wait()
        except asyncio.CancelledError:
            self.on(self.cancelled, turn.text).set()
            await self.may_clean.wait()
            self.log.append(f"cleaned {turn.text}")
            raise
        return DestinationResult(AgentExchange(turn.text, "done", turn_id=turn.turn_id), self.focus)


class Decisions:
    """Chooses what a test wants, and keeps what it was asked."""

    def __init__(self, *choices: str | BaseException) -> None:
        self.choices = list(choices)
        self.states: list[Any] = []
        self.criteria: list[dict[str, str]] = []
        self.timeouts: list[float | None] = []

    async def decide(
        self,
        state: str | Mapping[str, object],
        questions: Mapping[str, DecisionQuestion],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as the protocol has it
    ) -> DecisionResult:
        ((name, question),) = questions.items()
        self.states.append(state)
        self.criteria.append(dict(question.criteria))
        self.timeouts.append(timeout)
        choice = self.choices.pop(0)
        if isinstance(choice, BaseException):
            raise choice
        return DecisionResult({name: DecisionAnswer(choice)})


class Desk:
    """A router, with what it said."""

    def __init__(
        self, destinations: Mapping[str, RoutableAgent], *choices: str | BaseException, **options: Any
    ) -> None:
        self.said: list[tuple[str, str, str]] = []
        self.log: list[str] = []
        self.failing: Exception | None = None
        self.decisions = Decisions(*choices)
        self.router = AgentRouter(destinations, self.decisions, output=self.output, **options)

    async def output(self, turn: AgentTurn, route: str, text: str) -> None:
        if self.failing is not None:
            raise self.failing
        self.said.append((turn.text, route, text))
        self.log.append(f"said {text}")

    def begin(self, given: AgentTurn) -> asyncio.Task[Any]:
        return asyncio.create_task(self.router.handle(given))


def pair(log: list[str], **options: Any) -> dict[str, Destination]:
    """Return two destinations, a and b, that share a log; options begin with a_ or b_."""
    return {
        name: Destination(name, log, **{k[2:]: v for k, v in options.items() if k.startswith(f"{name}_")})
        for name in "ab"
    }


# Who gets a turn


async def test_a_destination_is_a_routable_agent() -> None:
    assert isinstance(Destination(), RoutableAgent)


async def test_an_answered_turn_names_its_route_and_its_exchange() -> None:
    result = await Desk({"a": Destination("a")}).router.handle(turn("hi"))
    assert (result.outcome, result.route, result.error) == ("answered", "a", None)
    assert result.exchange == AgentExchange("hi", "a: hi", 5, "turn of hi")


async def test_the_decision_service_chooses_among_descriptions_highest_priority_first() -> None:
    desk = Desk(
        {
            "low": Destination("low", routing=RoutingAid("Talks", priority=-1)),
            "plain": Destination("plain"),
            "high": Destination("high", routing=RoutingAid("Takes notes", priority=3)),
        },
        "low",
        decision_timeout_s=2.5,
    )
    result = await desk.router.handle(turn("hi"))
    assert result.route == "low"
    (criteria,) = desk.decisions.criteria
    assert list(criteria.items()) == [("high", "Takes notes"), ("plain", "plain"), ("low", "Talks")]
    assert desk.decisions.timeouts == [2.5]


async def test_the_decision_service_is_shown_the_query_and_the_latest_exchange() -> None:
    desk = Desk(pair([]), *"aaaaa")
    for number in range(5):
        await desk.router.handle(turn(str(number)))
    assert desk.decisions.states[0] == {"earlier_exchanges": [], "query": "0"}
    shown = desk.decisions.states[4]
    assert shown["query"] == "4"
    assert [exchange["request"] for exchange in shown["earlier_exchanges"]] == ["3"]


async def test_one_eligible_destination_needs_no_decision() -> None:
    destinations = pair([], b_routing=RoutingAid("b", eligible=lambda turn: "note" in turn.text))
    desk = Desk(destinations, "b")
    assert (await desk.router.handle(turn("hi"))).route == "a"
    assert desk.decisions.states == []
    assert (await desk.router.handle(turn("a note"))).route == "b"


async def test_a_destination_whose_eligibility_fails_is_not_eligible() -> None:
    def fail(_: AgentTurn) -> bool:
        raise KeyError("x")

    desk = Desk(pair([], b_routing=RoutingAid("b", eligible=fail)))
    assert (await desk.router.handle(turn("hi"))).route == "a"


async def test_nothing_is_said_or_done_before_the_admission() -> None:
    destination = Destination("a", says=Admission("accept", "One moment."))
    desk = Desk({"a": destination})
    desk.log = destination.log
    await desk.router.handle(turn("hi"))
    assert destination.log == ["a admits hi", "said One moment.", "a answers hi"]
    assert desk.said == [("hi", "a", "One moment.")]


async def test_a_declined_turn_goes_to_another_destination_once() -> None:
    log: list[str] = []
    desk = Desk(pair(log, a_says=Admission("decline")), "a")
    assert (await desk.router.handle(turn("hi"))).route == "b"
    assert log == ["a admits hi", "b admits hi", "b answers hi"]
    assert len(desk.decisions.states) == 1


async def test_a_declined_destination_is_a_choice_again_in_the_next_turn() -> None:
    desk = Desk(
        pair([], a_says=lambda turn: Admission("decline" if turn.text == "hi" else "accept")), "a", "a"
    )
    assert [(await desk.router.handle(turn(text))).route for text in ("hi", "ho")] == ["b", "a"]


async def test_after_two_have_declined_the_default_gets_one_attempt() -> None:
    log: list[str] = []
    names = ("a", "b", "c", "default")
    declining = {name: Destination(name, log, says=Admission("decline")) for name in names}
    desk = Desk(declining, "a", "b", default="default")
    result = await desk.router.handle(turn("hi"))
    assert log == ["a admits hi", "b admits hi", "default admits hi"]
    assert desk.said == [("hi", "router", CANNOT)]
    assert result.outcome == "failed"
    assert isinstance(result.error, LookupError)


async def test_an_accepting_default_answers_after_two_have_declined() -> None:
    destinations = pair([], a_says=Admission("decline"), b_says=Admission("decline"))
    desk = Desk({**destinations, "default": Destination("default")}, "a", "b", default="default")
    assert (await desk.router.handle(turn("hi"))).route == "default"
    assert desk.said == []


async def test_a_default_that_declined_or_is_not_eligible_is_not_tried() -> None:
    log: list[str] = []
    declining = {name: Destination(name, log, says=Admission("decline")) for name in "abc"}
    await Desk(declining, "a", "b", default="a").router.handle(turn("hi"))
    assert log == ["a admits hi", "b admits hi"]
    declining["c"].routing = RoutingAid("c", eligible=lambda _: False)
    log.clear()
    await Desk(declining, "a", default="c").router.handle(turn("hi"))
    assert log == ["a admits hi", "b admits hi"]


async def test_without_any_eligible_destination_the_participant_is_told() -> None:
    desk = Desk({"a": Destination(routing=RoutingAid("a", eligible=lambda _: False))}, unrouted_text="No.")
    result = await desk.router.handle(turn("hi"))
    assert (result.outcome, result.route) == ("failed", None)
    assert desk.said == [("hi", "router", "No.")]


async def test_a_clarification_ends_the_turn_with_its_question_which_the_next_turn_is_shown() -> None:
    log: list[str] = []
    destination = Destination(
        "a",
        log,
        says=lambda turn: Admission("clarify", "Which?") if turn.text == "it" else Admission("accept"),
    )
    desk = Desk({"a": destination})
    result = await desk.router.handle(turn("it"))
    assert result.outcome == "clarified"
    assert desk.said == [("it", "a", "Which?")]
    assert log == ["a admits it"]
    await desk.router.handle(turn("the left one"))
    assert destination.turns[0].exchanges == (AgentExchange("it", "Which?", 5, "turn of it"),)


@pytest.mark.parametrize(
    "fault", [RuntimeError("no model"), TimeoutError(), ValueError("malformed"), "nowhere"]
)
async def test_a_choice_that_fails_goes_to_the_default_or_is_said(fault: str | BaseException) -> None:
    desk = Desk(pair([]), fault, default="b")
    assert (await desk.router.handle(turn("hi"))).route == "b"
    desk = Desk(pair([]), fault)
    result = await desk.router.handle(turn("hi"))
    assert (result.outcome, desk.said) == ("failed", [("hi", "router", SORRY)])


# Focus


async def test_whoever_has_the_focus_gets_the_next_turns_without_a_decision() -> None:
    desk = Desk(pair([], a_focus="take"), "a")
    for text in ("one", "two", "three"):
        assert (await desk.router.handle(turn(text))).route == "a"
    assert len(desk.decisions.states) == 1


async def test_focus_is_each_participants_own() -> None:
    desk = Desk(pair([], a_focus="take"), "a", "b")
    await desk.router.handle(turn("hi"))
    assert (await desk.router.handle(turn("hi", "q"))).route == "b"


async def test_declining_keeps_the_focus_and_is_not_told_as_a_release() -> None:
    log: list[str] = []
    admission = {"two": Admission("decline")}
    desk = Desk(
        pair(log, a_focus="take", a_says=lambda turn: admission.get(turn.text, Admission("accept"))), "a"
    )
    assert [(await desk.router.handle(turn(text))).route for text in ("one", "two", "three")] == list("aba")
    assert not [line for line in log if "releases" in line]


async def test_a_release_clears_the_focus_and_routes_the_same_query() -> None:
    log: list[str] = []
    admission = {"two": Admission("release")}
    desk = Desk(
        pair(log, a_focus="take", a_says=lambda turn: admission.get(turn.text, Admission("accept"))),
        *"abb",
    )
    assert [(await desk.router.handle(turn(text))).route for text in ("one", "two", "three")] == list("abb")
    assert log[2:5] == ["a admits two", "a releases p", "b admits two"]


async def test_releasing_again_in_the_same_turn_is_declining() -> None:
    log: list[str] = []
    released = Admission("release")
    desk = Desk(
        pair(
            log, a_focus="take", a_says=lambda turn: released if turn.text == "two" else Admission("accept")
        ),
        *"aa",
    )
    await desk.router.handle(turn("one"))
    assert (await desk.router.handle(turn("two"))).route == "b"
    assert log[2:] == ["a admits two", "a releases p", "a admits two", "b admits two", "b answers two"]


async def test_a_result_may_give_up_the_focus_or_take_it_from_another() -> None:
    log: list[str] = []
    says = {"two": Admission("decline")}
    destinations = pair(
        log,
        a_focus="take",
        a_says=lambda turn: says.get(turn.text, Admission("accept")),
        b_focus="take",
    )
    desk = Desk(destinations, *"aa")
    routes = [(await desk.router.handle(turn("one"))).route, (await desk.router.handle(turn("two"))).route]
    assert "a releases p" in log
    destinations["b"].focus = "release"
    routes += [(await desk.router.handle(turn(text))).route for text in ("three", "four")]
    assert routes == ["a", "b", "b", "a"]
    assert "b releases p" in log


async def test_a_result_that_gives_up_a_focus_it_does_not_have_changes_nothing() -> None:
    says = {"two": Admission("decline")}
    desk = Desk(
        pair(
            [],
            a_focus="take",
            a_says=lambda turn: says.get(turn.text, Admission("accept")),
            b_focus="release",
        ),
        "a",
    )
    assert [(await desk.router.handle(turn(text))).route for text in ("one", "two", "three")] == list("aba")


async def test_whoever_is_not_eligible_any_more_loses_the_focus() -> None:
    log: list[str] = []
    aid = RoutingAid("a", eligible=lambda turn: turn.text == "one")
    desk = Desk(pair(log, a_focus="take", a_routing=aid), "a")
    assert [(await desk.router.handle(turn(text))).route for text in ("one", "two")] == list("ab")
    assert "a releases p" in log


async def test_a_release_that_fails_stops_nothing() -> None:
    class Clinging(Destination):
        async def release(self, participant_id: str) -> None:
            raise RuntimeError("no")

    aid = RoutingAid("a", eligible=lambda turn: turn.text == "one")
    desk = Desk({"a": Clinging("a", focus="take", routing=aid), "b": Destination("b")}, "a")
    assert [(await desk.router.handle(turn(text))).route for text in ("one", "two")] == list("ab")


# History and what is known of a turn


async def test_history_is_bounded_and_kept_apart_from_the_query_and_from_other_participants() -> None:
    destination = Destination("a")
    desk = Desk({"a": destination}, history=2)
    for text in ("one", "two", "three", "four"):
        await desk.router.handle(turn(text))
    await desk.router.handle(turn("hi", "q"))
    assert [exchange.request for exchange in destination.turns[3].exchanges] == ["two", "three"]
    assert destination.turns[3].text == "four"
    assert destination.turns[4].exchanges == ()


async def test_an_answer_without_an_exchange_leaves_no_history() -> None:
    async def nothing(_: AgentTurn) -> None:
        return None

    destination = Destination("a", action=nothing)
    desk = Desk({"a": destination})
    assert [(await desk.router.handle(turn(text))).outcome for text in "xy"] == ["answered"] * 2
    assert destination.turns[1].exchanges == ()


async def test_a_destination_can_ask_what_turn_it_is_called_for() -> None:
    seen: list[Any] = []

    async def look(_: AgentTurn) -> None:
        seen.append(current_turn_context())

    def admission(_: AgentTurn) -> Admission:
        seen.append(current_turn_context())
        return Admission("accept")

    await Desk({"a": Destination(says=admission, action=look)}).router.handle(turn("hi"))
    assert seen[0] == seen[1]
    context = seen[0]
    assert (context.participant_id, context.turn_id, context.route) == ("p", "turn of hi", "a")
    assert (context.focused, context.timestamp_us) == (False, 5)
    with pytest.raises(LookupError):
        current_turn_context()


# Failure


@pytest.mark.parametrize(
    "error",
    [RuntimeError("model"), asyncio.CancelledError(), BaseExceptionGroup("x", [asyncio.CancelledError()])],
)
async def test_a_failure_before_the_answer_begins_is_said(error: BaseException) -> None:
    async def fail(_: AgentTurn) -> None:
        raise error

    destination = Destination("a", action=fail)
    desk = Desk({"a": destination}, error_text="Oh.")
    result = await desk.router.handle(turn("hi"))
    assert (result.outcome, result.route, result.error) == ("failed", "a", error)
    assert desk.said == [("hi", "a", "Oh.")]
    destination.action = None
    assert (await desk.router.handle(turn("again"))).outcome == "answered"
    assert destination.turns[1].exchanges == ()


async def test_a_failure_after_the_answer_began_is_left_to_the_destination() -> None:
    class Stumbling(Destination):
        async def answer(
            self, turn: AgentTurn, started: Callable[[], object] | None = None
        ) -> DestinationResult | None:
            assert started is not None
            started()
            raise RuntimeError("model")

    desk = Desk({"a": Stumbling()})
    assert (await desk.router.handle(turn("hi"))).outcome == "failed"
    assert desk.said == []


@pytest.mark.parametrize("error", [RuntimeError("x"), asyncio.CancelledError()])
async def test_an_admission_that_fails_is_said(error: BaseException) -> None:
    desk = Desk({"a": Destination("a", says=error)})
    result = await desk.router.handle(turn("hi"))
    assert (result.outcome, result.error) == ("failed", error)
    assert desk.said == [("hi", "a", SORRY)]


async def test_a_fault_that_no_node_foresees_is_said_as_well() -> None:
    class NotAsynchronous(Destination):
        def admit(self, turn: AgentTurn) -> Any:
            raise KeyError("before anything could be awaited")

    desk = Desk({"a": NotAsynchronous()})
    assert (await desk.router.handle(turn("hi"))).outcome == "failed"
    assert desk.said == [("hi", "router", SORRY)]


async def test_a_preamble_that_cannot_be_said_does_not_stop_the_answer() -> None:
    desk = Desk({"a": Destination("a", says=Admission("accept", "One moment."))})
    desk.failing = OSError("bus")
    assert (await desk.router.handle(turn("hi"))).outcome == "answered"


async def test_a_question_or_an_error_that_cannot_be_said_is_a_failure_with_its_first_cause() -> None:
    desk = Desk({"a": Destination("a", says=Admission("clarify", "Which?"))})
    desk.failing = OSError("bus")
    assert (await desk.router.handle(turn("hi"))).error is desk.failing
    cause = RuntimeError("model")
    desk = Desk({"a": Destination("a", says=cause)})
    desk.failing = OSError("bus")
    assert (await desk.router.handle(turn("hi"))).error is cause


async def test_logs_carry_ids_and_never_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk({"a": Destination("a", says=RuntimeError("secret error"))}, error_text="secret text")
    desk.failing = OSError("secret bus")
    await desk.router.handle(turn("secret query", turn_id="t1"))
    assert "t1" in caplog.text
    assert "secret" not in caplog.text


# Order and cancellation


async def test_a_new_turn_cancels_the_one_before_and_begins_when_that_has_ended() -> None:
    destination = Held()
    desk = Desk({"d": destination})
    first = desk.begin(turn("hold 1"))
    await destination.on(destination.entered, "hold 1").wait()
    second = desk.begin(turn("two"))
    await destination.on(destination.cancelled, "hold 1").wait()
    await asyncio.sleep(0)
    assert "d admits two" not in destination.log
    destination.may_clean.set()
    assert (await first).outcome == "cancelled"
    assert (await second).outcome == "answered"
    assert destination.log.index("cleaned hold 1") < destination.log.index("d admits two")
    assert destination.turns[1].exchanges == ()
    assert desk.said == []


async def test_a_turn_overtaken_while_it_waits_is_never_begun_and_the_next_still_waits_for_the_first() -> (
    None
):
    destination = Held()
    desk = Desk({"d": destination})
    first = desk.begin(turn("hold 1"))
    await destination.on(destination.entered, "hold 1").wait()
    second = desk.begin(turn("two"))
    await destination.on(destination.cancelled, "hold 1").wait()
    third, fourth = desk.begin(turn("three")), desk.begin(turn("four"))
    assert (await second).outcome == (await third).outcome == "cancelled"
    assert not first.done()
    destination.may_clean.set()
    assert [(await task).outcome for task in (first, fourth)] == ["cancelled", "answered"]
    assert destination.log == [
        "d admits hold 1", "d answers hold 1", "cleaned hold 1", "d admits four", "d answers four",
    ]  # fmt: skip


async def test_participants_do_not_wait_for_each_other() -> None:
    destination = Held()
    desk = Desk({"d": destination})
    held = desk.begin(turn("hold 1"))
    await destination.on(destination.entered, "hold 1").wait()
    assert (await desk.router.handle(turn("hi", "q"))).outcome == "answered"
    assert not held.done()
    destination.release_all.set()
    assert (await held).outcome == "answered"


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_cancelled_caller_is_cancelled_when_the_turn_has_ended(times: int) -> None:
    destination = Held()
    desk = Desk({"d": destination})
    task = desk.begin(turn("hold"))
    await destination.on(destination.entered, "hold").wait()
    for _ in range(times):
        task.cancel()
        await destination.on(destination.cancelled, "hold").wait()
        await asyncio.sleep(0)
    assert not task.done()
    destination.may_clean.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert destination.log[-1] == "cleaned hold"
    assert desk.said == []


async def test_an_interruption_ends_the_turn_and_keeps_the_focus() -> None:
    destination = Held(focus="take")
    desk = Desk({"d": destination, "other": Destination("other")}, "d")
    await desk.router.handle(turn("one"))
    held = desk.begin(turn("hold"))
    await destination.on(destination.entered, "hold").wait()
    interruption = asyncio.create_task(desk.router.interrupt("p"))
    await destination.on(destination.cancelled, "hold").wait()
    assert not interruption.done()
    destination.may_clean.set()
    await interruption
    assert (await held).outcome == "cancelled"
    assert (await desk.router.handle(turn("two"))).route == "d"
    assert [exchange.request for exchange in destination.turns[-1].exchanges] == ["one"]


async def test_interrupting_somebody_unknown_does_nothing() -> None:
    desk = Desk({"d": Destination()})
    await desk.router.interrupt("nobody")
    await desk.router.interrupt()


async def test_a_destination_that_raises_something_else_when_cancelled_is_not_said_to_have_failed() -> None:
    entered = asyncio.Event()

    async def hide(turn: AgentTurn) -> None:
        if turn.text == "two":
            return
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("hidden") from None

    desk = Desk({"d": Destination(action=hide)})
    first = desk.begin(turn("one"))
    await entered.wait()
    assert (await desk.router.handle(turn("two"))).outcome == "answered"
    assert (await first).outcome == "cancelled"
    assert desk.said == []


async def test_a_destination_that_swallows_a_cancellation_in_its_admission_is_not_asked_to_answer() -> None:
    entered = asyncio.Event()

    class Stubborn(Destination):
        async def admit(self, turn: AgentTurn) -> Admission:
            if turn.text == "one":
                entered.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
            return Admission("accept")

    destination = Stubborn()
    desk = Desk({"d": destination})
    first = desk.begin(turn("one"))
    await entered.wait()
    await desk.router.handle(turn("two"))
    assert (await first).outcome == "cancelled"
    assert [given.text for given in destination.turns] == ["two"]


async def test_a_cancellation_while_a_choice_or_a_text_is_under_way_ends_the_turn() -> None:
    entered, never = asyncio.Event(), asyncio.Event()

    async def wait(*_: Any, **__: Any) -> Any:
        entered.set()
        await never.wait()

    choosing = Desk(pair([]))
    choosing.decisions.decide = wait  # type: ignore[method-assign]
    saying = Desk({"a": Destination(says=Admission("accept", "One moment."))})
    saying.router = AgentRouter({"a": Destination(says=RuntimeError("x"))}, saying.decisions, output=wait)
    for desk in (choosing, saying):
        entered.clear()
        task = desk.begin(turn("hi"))
        await entered.wait()
        await desk.router.interrupt("p")
        assert (await task).outcome == "cancelled"


async def test_a_destination_that_asks_the_router_for_the_same_participant_does_not_hang() -> None:
    async def again(given: AgentTurn) -> None:
        if given.text == "one":
            await desk.router.handle(turn("two"))

    desk = Desk({"d": Destination(action=again)})
    assert (await desk.router.handle(turn("one"))).outcome == "cancelled"
    await desk.router.stop()


# Departure


async def test_a_departure_ends_the_turn_tells_everybody_and_forgets() -> None:
    log: list[str] = []
    destination = Held("a", log, focus="take")
    desk = Desk({"a": destination, "b": Destination("b", log)}, "a", "a")
    await desk.router.handle(turn("one"))
    held = desk.begin(turn("hold"))
    await destination.on(destination.entered, "hold").wait()
    leaving = asyncio.create_task(desk.router.participant_left("p"))
    await destination.on(destination.cancelled, "hold").wait()
    assert "a sees p leave" not in log
    destination.may_clean.set()
    await leaving
    assert (await held).outcome == "cancelled"
    assert log[-3:] == ["cleaned hold", "a sees p leave", "b sees p leave"]
    await desk.router.handle(turn("new"))
    assert len(desk.decisions.states) == 2
    assert destination.turns[-1].exchanges == ()


def held_at_departure() -> tuple[Destination, asyncio.Event, asyncio.Event]:
    """Return a destination that sets the first event when a participant leaves, and waits for the second."""
    destination, entered, may_leave = Destination("a"), asyncio.Event(), asyncio.Event()

    async def leave(_: str) -> None:
        entered.set()
        await may_leave.wait()

    destination.leaving = leave
    return destination, entered, may_leave


async def test_a_turn_under_the_id_of_somebody_who_is_leaving_waits_and_is_not_cancelled() -> None:
    destination, entered, may_leave = held_at_departure()
    desk = Desk({"a": destination})
    await desk.router.handle(turn("old"))
    leaving = asyncio.create_task(desk.router.participant_left("p"))
    await entered.wait()
    returned = desk.begin(turn("new"))
    again = asyncio.create_task(desk.router.participant_left("p"))
    await asyncio.sleep(0)
    may_leave.set()
    await leaving
    await again
    assert (await returned).outcome == "cancelled"  # by the second departure
    assert (await desk.router.handle(turn("newest"))).outcome == "answered"
    assert destination.turns[-1].exchanges == ()


async def test_a_departure_that_is_reported_twice_is_one() -> None:
    destination, entered, may_leave = held_at_departure()
    desk = Desk({"a": destination})
    leaving = [asyncio.create_task(desk.router.participant_left("p")) for _ in range(2)]
    await entered.wait()
    leaving.append(asyncio.create_task(desk.router.participant_left("p")))
    await asyncio.sleep(0)
    may_leave.set()
    await asyncio.gather(*leaving)
    assert destination.log == ["a sees p leave"]


async def test_all_are_told_of_a_departure_whatever_fails_and_the_errors_are_grouped() -> None:
    log: list[str] = []
    destinations = pair(log)

    async def fail(_: str) -> None:
        raise KeyError("x")

    destinations["a"].leaving = fail
    desk = Desk(destinations)
    with pytest.raises(ExceptionGroup, match="left") as caught:
        await desk.router.participant_left("p")
    assert [type(error) for error in caught.value.exceptions] == [KeyError]
    assert log == ["a sees p leave", "b sees p leave"]


async def test_a_departure_goes_on_when_its_caller_is_cancelled_and_stopping_waits_for_it() -> None:
    destination = Held()
    desk = Desk({"d": destination})
    held = desk.begin(turn("hold"))
    await destination.on(destination.entered, "hold").wait()
    leaving = asyncio.create_task(desk.router.participant_left("p"))
    await destination.on(destination.cancelled, "hold").wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    stopping = asyncio.create_task(desk.router.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    destination.may_clean.set()
    await stopping
    assert destination.log[-1] == "d sees p leave"
    assert (await held).outcome == "cancelled"


async def test_a_destination_may_report_the_departure_of_its_own_participant() -> None:
    async def leave(_: AgentTurn) -> None:
        await desk.router.participant_left("p")

    destination = Destination(action=leave)
    desk = Desk({"d": destination})
    assert (await desk.router.handle(turn("bye"))).outcome == "cancelled"
    await desk.router.stop()
    assert destination.log[-1] == "d sees p leave"


# Stopping, and what is left


async def test_stopping_ends_all_turns_waits_for_them_and_refuses_later_ones() -> None:
    destination = Held()
    desk = Desk({"d": destination})
    tasks = [desk.begin(turn("hold", participant)) for participant in "pq"]
    await destination.on(destination.entered, "hold").wait()
    stopping = asyncio.create_task(desk.router.stop())
    await destination.on(destination.cancelled, "hold").wait()
    stopping.cancel()
    await asyncio.sleep(0)
    stopping.cancel()
    await asyncio.sleep(0)
    assert not stopping.done()
    with pytest.raises(RuntimeError, match="stopped"):
        await desk.router.handle(turn("late"))
    destination.may_clean.set()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert [(await task).outcome for task in tasks] == ["cancelled"] * 2
    await desk.router.stop()


async def test_a_turn_cannot_stop_the_router_that_would_wait_for_it() -> None:
    async def stop(_: AgentTurn) -> None:
        await desk.router.stop()

    desk = Desk({"d": Destination(action=stop)})
    result = await desk.router.handle(turn("hi"))
    assert isinstance(result.error, RuntimeError)
    await desk.router.stop()


async def test_nothing_is_left_of_participants_that_left() -> None:
    destination = Destination("a")
    desk = Desk({"a": destination})
    for number in range(50):
        await desk.router.handle(turn("hi", str(number)))
        await desk.router.participant_left(str(number))
        await desk.router.participant_left("nobody")
    assert len(desk.router._lanes) == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_real_conversation_answers_through_the_router() -> None:
    model = ScriptedModel(script=says("At ", "nine."))
    async with ContextManager(ScriptedModel()) as context:
        talk = Conversation(model, context=context)

        async def answer(given: AgentTurn) -> DestinationResult:
            pieces = [
                piece async for piece in talk.stream(given.participant_id, given.text, turn_id=given.turn_id)
            ]
            return DestinationResult(AgentExchange(given.text, "".join(pieces), turn_id=given.turn_id))

        desk = Desk({"talk": Destination(action=answer)})
        results = [await desk.router.handle(turn(text)) for text in ("When?", "Sure?")]
        await desk.router.stop()
        await context.settled()
    assert [result.exchange and result.exchange.response for result in results] == ["At nine."] * 2
    assert "user> When?\nassistant> At nine." in texts(model.requests[1])[1]


# What a router is made of


async def unused(*_: Any) -> None:
    raise AssertionError("it is not called")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output": unused, "query_topic": Topic("q", UserQuery), "output_topic": VOICE_OUTPUT_TOPIC},
        {"output": unused, "query_topic": Topic("q", UserQuery)},
        {"output_topic": VOICE_OUTPUT_TOPIC},
        {"output": unused, "cleanup_participant": unused},
        {"output": unused, "interrupted_topic": Topic("i", UserQuery)},
        {"output": unused, "left_topic": Topic("l", UserQuery)},
        {"output": unused, "default": "nobody"},
        {"output": unused, "history": -1},
    ],
)
def test_a_router_is_used_in_one_way_and_what_does_not_belong_to_it_is_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=r"topic|output|default|history"):
        AgentRouter({"a": Destination()}, Decisions(), **options)


def test_a_router_needs_destinations_that_can_be_routed_to() -> None:
    with pytest.raises(ValueError, match="empty"):
        AgentRouter({}, Decisions(), output=unused)
    with pytest.raises(ValueError, match="blank"):
        AgentRouter({" ": Destination()}, Decisions(), output=unused)
    with pytest.raises(TypeError, match="'a' must be a RoutableAgent, got object"):
        AgentRouter({"a": object()}, Decisions(), output=unused)  # type: ignore[dict-item]


async def test_a_router_with_a_query_topic_is_not_handed_turns() -> None:
    router = AgentRouter(
        {"a": Destination()},
        Decisions(),
        query_topic=Topic("q", UserQuery),
        output_topic=VOICE_OUTPUT_TOPIC,
    )
    with pytest.raises(RuntimeError, match="query_topic"):
        await router.handle(turn("hi"))


@pytest.mark.parametrize(
    "wrong", [("", "t", "x"), (" ", "t", "x"), ("p", "", "x"), ("p", "t", ""), ("p", "t", " \n")]
)
def test_a_turn_has_ids_and_a_text(wrong: tuple[str, str, str]) -> None:
    with pytest.raises(ValueError, match="must not be blank"):
        AgentTurn(*wrong)


def test_dispositions_and_focus_are_among_the_known_ones_and_a_clarification_asks() -> None:
    with pytest.raises(ValueError, match="'maybe'"):
        Admission("maybe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="question"):
        Admission("clarify")
    with pytest.raises(ValueError, match="'steal'"):
        DestinationResult(focus="steal")  # type: ignore[arg-type]
