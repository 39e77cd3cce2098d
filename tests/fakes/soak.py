# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A whole routed house under load: many people who talk, interrupt, leave, and come again as somebody else.

Each person has a secret word, in all that is said by and published about them; each turn and update has a token. So
whatever is heard, sent to a model or stored tells whose it is, and how often it is there. Nothing waits for a clock.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal, Self

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from fakes.chat import Piece, ScriptedModel, texts
from fakes.voice import VoiceLayer
from xr_ai_conversation.state.context import ParticipantContext, Section, section
from xr_ai_conversation.xr import (
    VOICE_OUTPUT_TOPIC,
    Admission,
    AgentExchange,
    AgentRouter,
    AgentRuntime,
    AgentTurn,
    ConversationContextUpdate,
    DecisionAnswer,
    DecisionQuestion,
    DecisionResult,
    DestinationResult,
    Interrupted,
    ParticipantLeft,
    ResponseOutput,
    RoutableAgent,
    RoutingAid,
    RuntimeContext,
    Topic,
    UserQuery,
    current_turn_context,
    subscribe,
)
from xr_ai_conversation.xr.context import ContextManager
from xr_ai_conversation.xr.conversation import Conversation
from xr_ai_conversation.xr.response import Response
from xr_ai_conversation.xr.routing import Started

QUERIES = Topic("queries", UserQuery)
INTERRUPTED = Topic("interrupted", Interrupted)
LEFT = Topic("left", ParticipantLeft)
NOTES = Topic("notes", ConversationContextUpdate)
CAMERA = Topic("camera", ConversationContextUpdate)

_SECRET = re.compile(r"zq\d{6}")
_TOKEN = re.compile(r"t\d{6}!?")
"""Of a turn or an update; the mark behind it, in a summary, tells that the answer was interrupted."""
_LIMIT = re.compile(r"at most (\d+) bytes")
_YIELDS_TO_THE_END = 20_000


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is done in a round; everything is counted out, nothing is timed."""

    participants: int
    visits: int = 2
    """How many people come under each id, one after the other."""
    moments: int = 5
    """How many queries of a visit may be cut off; at least two more are answered."""
    updates: int = 4
    """How often something is published about a person meanwhile."""
    seed: int = 1
    record_interrupted: bool = False


@dataclass(slots=True)
class Counts:
    """What happened, and what was looked at."""

    turns: int = 0
    answered: int = 0
    cancelled: int = 0
    """By the destination's account; the others were cut off before they reached one."""
    unreached: int = 0
    interruptions: int = 0
    updates: int = 0
    departures: int = 0
    frames: int = 0
    responses: int = 0
    prompts: int = 0
    """Requests to the model that answers."""
    remembering: int = 0
    """Those of them that had something of the person's in their context."""
    summaries: int = 0
    """Requests to the model that summarises."""
    contexts: int = 0
    """Contexts that were compared with what had been acknowledged, two of each person."""
    recorded: int = 0
    """Completed exchanges that were found at the end of the visits."""
    late: int = 0
    """Those of them that were cancelled when all had been said."""
    marked: int = 0
    """Interrupted exchanges that were found at the end of the visits."""
    foreign: int = 0
    """Secrets of others that were heard, asked or stored."""
    tasks_left: int = 0
    held: int = 0
    """What router, manager and store held of people who had left."""


@dataclass(eq=False)
class Person:
    """Who is there under an id, for one visit."""

    participant: str
    secret: str
    random: Random
    turns: list[Turn] = field(default_factory=list)
    published: dict[str, bool] = field(default_factory=dict)
    """Tokens of the updates on the incremental topic, and whether each was acknowledged."""
    seen: str = ""
    """Token of the newest update on the summary topic."""


@dataclass(eq=False)
class Turn:
    """A query, and how far it came."""

    person: Person
    token: str
    note: bool
    random: Random
    outcome: Literal["unreached", "answered", "cancelled", "failed"] = "unreached"
    asked: bool = False
    """The model was asked."""
    heard: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """The model was asked, or the note was begun; like the events that follow, set at the end in any case."""
    voiced: asyncio.Event = field(default_factory=asyncio.Event)
    """Something of it was heard."""
    made: asyncio.Event = field(default_factory=asyncio.Event)
    """The model ended by itself."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        verb = "notes" if self.note else "asks"
        return f"{self.person.secret} {verb} {self.token}: what is it about the pump in hall three?"

    def pieces(self, known: str) -> tuple[str, ...]:
        """Return the pieces of the answer by a model that sees these secrets."""
        return (f"{known} asked ", f"{self.token}. The seal ", "looks fine, the gauge ", "reads three bar.")

    async def pause(self, most: int = 3) -> None:
        await idle(self.random.randint(0, most))


async def idle(steps: int) -> None:
    """Let everybody else go on for some steps."""
    for _ in range(steps):
        await asyncio.sleep(0)


class Listener(VoiceLayer):
    """The strict voice layer, which passes on what it hears, and can forget it."""

    hear: Callable[[ResponseOutput, RuntimeContext], Turn | None]

    @subscribe(VOICE_OUTPUT_TOPIC)
    async def output(self, message: ResponseOutput, context: RuntimeContext) -> None:
        await super().output(message, context)
        if turn := self.hear(message, context):
            await turn.pause()

    def forget(self) -> None:
        self.responses.clear()
        self.outputs.clear()
        self._streams.clear()


class Watched:
    """A destination whose turns are followed."""

    def __init__(self, soak: Soak, destination: RoutableAgent) -> None:
        self._soak = soak
        self._destination = destination

    @property
    def routing(self) -> RoutingAid | None:
        return self._destination.routing

    async def admit(self, turn: AgentTurn) -> Admission:
        followed = self._soak.turn(turn.text)
        self._soak.by_id[turn.turn_id], person = followed, followed.person
        self._soak.check(repr(turn.exchanges), person, "a router's history")
        if current_turn_context().focused and turn.text == person.turns[0].text:
            self._soak.fault(person, "somebody new found the focus of another")
        return await self._destination.admit(turn)

    async def answer(self, turn: AgentTurn, started: Started | None = None) -> DestinationResult | None:
        followed = self._soak.turn(turn.text)
        try:
            result = await self._destination.answer(turn, started=started)
        except asyncio.CancelledError:
            followed.outcome = "cancelled"
            raise
        except BaseException as error:
            followed.outcome = "failed"
            self._soak.fault(followed.person, f"{followed.token} failed with {error!r}")
            raise
        else:
            followed.outcome = "answered"
            return result
        finally:
            for event in (followed.begun, followed.voiced, followed.made, followed.ended):
                event.set()

    async def release(self, participant_id: str) -> None:
        await self._destination.release(participant_id)

    async def participant_left(self, participant_id: str) -> None:
        await self._destination.participant_left(participant_id)


class NoteTaker:
    """Publishes each of its turns as an update, says so, and keeps the focus until something else is asked."""

    routing = RoutingAid("takes notes")

    def __init__(self, soak: Soak) -> None:
        self._soak = soak

    async def admit(self, turn: AgentTurn) -> Admission:
        followed = self._soak.turn(turn.text)
        if not followed.note:
            return Admission("release")
        return Admission("accept", f"One moment, {followed.person.secret}." if turn.exchanges else "")

    async def answer(self, turn: AgentTurn, started: Started | None = None) -> DestinationResult:
        followed = self._soak.turn(turn.text)
        followed.begun.set()
        response = Response(self._soak.runtime, VOICE_OUTPUT_TOPIC, turn, "notes", started)
        try:
            await self._soak.note(followed.person, followed.token, source="notes")
            await response.say(f"{followed.person.secret} has ")
            await followed.pause()
            await response.say(f"{followed.token} noted.")
        finally:
            await response.end()
        exchange = AgentExchange(turn.text, "".join(response.said), turn.timestamp_us, turn.turn_id)
        return DestinationResult(exchange, focus="take")

    async def release(self, participant_id: str) -> None: ...

    async def participant_left(self, participant_id: str) -> None: ...


class Soak:
    """The house: runtime, router, conversation, note taker, context manager and voice layer; and all who visit it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.counts = Counts()
        self.faults: list[str] = []
        self.by_id: dict[str, Turn] = {}
        self._by_token: dict[str, Turn] = {}
        self._current: dict[str, Person | None] = {}
        self._made = 0
        self.runtime = AgentRuntime()
        self._voice = self.runtime.register("voice", Listener())
        self._voice.hear = self._hear
        self._answers = ScriptedModel(script=self._answer)
        self._summaries = ScriptedModel(script=self._summarise)
        self._context = ContextManager(
            self._summaries,
            summary_context_topics=[CAMERA.name],
            incremental_context_topics=[NOTES.name],
            dialogue_budget_bytes=800,
            topic_budget_bytes=600,
            compaction_input_budget_bytes=1_000,
        )
        self.runtime.register("context", self._context.subscriber())
        talk = Conversation(
            self._answers,
            context=self._context,
            runtime=self.runtime,
            output_topic=VOICE_OUTPUT_TOPIC,
            record_interrupted=plan.record_interrupted,
        )
        self._router = self.runtime.register(
            "router",
            AgentRouter(
                {"talk": Watched(self, talk), "notes": Watched(self, NoteTaker(self))},
                self,
                query_topic=QUERIES,
                output_topic=VOICE_OUTPUT_TOPIC,
                interrupted_topic=INTERRUPTED,
                left_topic=LEFT,
                cleanup_participant=self._context.clear,
            ),
        )

    async def __aenter__(self) -> Self:
        await self.runtime.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._router.stop()
        await self._context.close()
        await self.runtime.stop()
        self._look_for_tasks()

    async def round(self, progress: Callable[[], None] = lambda: None) -> None:
        """Let all visits of all participants take place, at once, and look at what is left when all have gone."""
        ids = [f"p{number}" for number in range(self.plan.participants)]
        last = await asyncio.gather(*(self._visits(participant, progress) for participant in ids))
        await self.runtime.publish(INTERRUPTED, Interrupted())
        self.counts.interruptions += 1
        await asyncio.gather(*(self._leave(person) for person in last))
        for _ in range(_YIELDS_TO_THE_END):
            if asyncio.all_tasks() == {asyncio.current_task()}:
                break
            await asyncio.sleep(0)
        await idle(1)  # for what is called when the last task is done
        self._look_for_tasks()
        self._look_at_responses()
        self._look_at_what_is_held()
        self._forget()

    # what the people do

    async def _visits(self, participant: str, progress: Callable[[], None]) -> Person:
        """Come and go, as one person after the other; the last one is still asking when this returns."""
        for visit in range(self.plan.visits):
            person = self._newcomer(participant)
            await self._answered(person)  # which waits for the departure of whoever was there before
            await asyncio.gather(self._talk(person), self._publish(person))
            await self._answered(person)
            await self._audit(person)
            await self._context.settled(participant)
            self._count(person, await self._audit(person))
            progress()
            if visit + 1 < self.plan.visits:
                await self._leave(person)
        await self._some_way(await self._ask(person, note=False))
        return person

    async def _talk(self, person: Person) -> None:
        for _ in range(self.plan.moments):
            turn = await self._ask(person, note=person.random.randrange(3) == 0)
            match person.random.choice(["wait", "cut", "cut", "interrupt"]):
                case "wait":
                    await turn.ended.wait()
                    self._must_be_answered(turn)
                case "cut":  # by the next query
                    await self._some_way(turn)
                case "interrupt":
                    await self._some_way(turn)
                    self.counts.interruptions += 1
                    await self.runtime.publish(INTERRUPTED, Interrupted(), participant_id=person.participant)

    async def _publish(self, person: Person) -> None:
        for _ in range(self.plan.updates):
            await idle(person.random.randrange(60))
            if person.random.randrange(2):
                await asyncio.gather(*(self.note(person, self._token()) for _ in range(2)))
            else:
                token = self._token()
                await self._update(person, CAMERA, f"{person.secret} is seen at {token}.")
                person.seen = token

    async def _leave(self, person: Person) -> None:
        await self._some_way(await self._ask(person, note=person.random.randrange(3) == 0))
        self.counts.departures += 1
        await self.runtime.publish(LEFT, ParticipantLeft(), participant_id=person.participant)
        self._current[person.participant] = None

    async def _ask(self, person: Person, *, note: bool) -> Turn:
        token = self._token()
        turn = Turn(person, token, note, Random(f"{self.plan.seed}/{token}"))
        person.turns.append(turn)
        self._by_token[token] = turn
        self.counts.turns += 1
        await self.runtime.publish(
            QUERIES, UserQuery(text=turn.text), participant_id=person.participant, source="voice"
        )
        return turn

    async def _answered(self, person: Person) -> None:
        turn = await self._ask(person, note=False)
        await turn.ended.wait()
        self._must_be_answered(turn)

    async def _some_way(self, turn: Turn) -> None:
        """Let a turn get to somewhere between its beginning and just after its end."""
        match turn.person.random.randrange(6):
            case 0:
                pass
            case 1:
                await turn.begun.wait()
            case 2 | 3:
                await turn.voiced.wait()
            case 4:
                await turn.made.wait()
        await idle(turn.person.random.randrange(40))

    async def note(self, person: Person, token: str, source: str = "camera") -> None:
        """Publish on the incremental topic; the update must be stored once when this returns."""
        person.published[token] = False
        await self._update(person, NOTES, f"{person.secret} has seen {token}: the pump runs.", source)
        person.published[token] = True

    async def _update(
        self, person: Person, topic: Topic[ConversationContextUpdate], text: str, source: str = "camera"
    ) -> None:
        self.counts.updates += 1
        message = ConversationContextUpdate(text=text)
        await self.runtime.publish(topic, message, participant_id=person.participant, source=source)

    def _newcomer(self, participant: str) -> Person:
        self._made += 1
        person = Person(participant, f"zq{self._made:06d}", Random(f"{self.plan.seed}/person {self._made}"))
        self._current[participant] = person
        return person

    def _token(self) -> str:
        self._made += 1
        return f"t{self._made:06d}"

    # what the models and the decision service do

    async def _answer(self, messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        """Say all secrets of the prompt, and what was asked."""
        _, context, request = texts(messages)
        turn = self.turn(request)
        self.counts.prompts += 1
        self.counts.remembering += turn.person.secret in context
        prompt = "\n".join(texts(messages))
        self.check(prompt, turn.person, "a prompt")
        turn.asked = True
        turn.begun.set()
        slowest = turn.random.choice((0, 3, 30))  # faster than the listener, as fast, or slower
        for piece in turn.pieces(_secrets(prompt)):
            await turn.pause(slowest)
            yield piece
        turn.made.set()

    async def _summarise(self, messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        """Keep all secrets, and the token of each record, with a mark on those that were interrupted."""
        text = "\n".join(texts(messages))
        self.counts.summaries += 1
        owners = set(_SECRET.findall(text))
        if len(owners) != 1:
            self.counts.foreign += max(0, len(owners) - 1)
            self.faults.append(f"a request for a summary is about {sorted(owners)}")
        summary, mark = [_secrets(text)], ""
        for line in text.splitlines():
            if line.startswith("Exchange at "):
                mark = "!" if line.endswith(", interrupted:") else ""
            elif line.startswith("user> "):
                summary += [token + mark for token in _TOKEN.findall(line)]
            elif line.startswith(("summary> ", "update> ")):
                summary += _TOKEN.findall(line)
        said = " ".join(summary)
        if len(said) > int(_LIMIT.findall(text)[-1]):
            self.faults.append("a visit is too long for its summary: take fewer moments or updates")
        await idle(self._made % 7)
        yield said

    async def decide(
        self,
        state: str | Mapping[str, object],
        questions: Mapping[str, DecisionQuestion],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - a decision service is called with it
    ) -> DecisionResult:
        """Choose the destination that the query names."""
        assert isinstance(state, Mapping)
        turn = self.turn(str(state["query"]))
        self.check(json.dumps(state), turn.person, "a decision")
        await turn.pause()
        return DecisionResult({name: DecisionAnswer("notes" if turn.note else "talk") for name in questions})

    # what is looked at

    def turn(self, text: str) -> Turn:
        """Return the turn of a query."""
        return self._by_token[_TOKEN.findall(text)[0]]

    def fault(self, person: Person | None, what: str) -> None:
        """Keep what is wrong."""
        self.faults.append(f"{person.participant} {person.secret}: {what}" if person else what)

    def check(self, text: str, person: Person | None, where: str) -> None:
        """Look for the secrets of others."""
        if foreign := set(_SECRET.findall(text)) - {person.secret if person else None}:
            self.counts.foreign += len(foreign)
            self.fault(person, f"{where} has {sorted(foreign)}")

    def _hear(self, message: ResponseOutput, context: RuntimeContext) -> Turn | None:
        participant = context.metadata.participant_id
        assert participant is not None
        self.counts.frames += 1
        current = self._current[participant]
        self.check(message.text, current, "a frame")
        turn = self.by_id.get(message.request_id or "")
        if turn and message.text and turn.person is not current:
            self.fault(current, f"heard {message.text!r} of somebody else's {turn.token}")
        if turn and message.response_id:
            turn.heard += message.text
            turn.voiced.set()
        return turn

    def _must_be_answered(self, turn: Turn) -> None:
        if turn.outcome != "answered":
            self.fault(turn.person, f"{turn.token} was cut off by nobody, and is {turn.outcome}")

    async def _audit(self, person: Person) -> Counter[str]:
        """Compare what is stored of a person with what was acknowledged; an answer has just ended, no other runs.

        Returns:
            The tokens of the dialogue.
        """
        context = await self._context.snapshot(person.participant)
        blocks = await self._context.blocks(person.participant)
        self.counts.contexts += 1
        self.check(json.dumps(context), person, "a stored context")
        self.check("\n".join(block.text for block in blocks), person, "a rendered context")
        self._audit_dialogue(person, context["dialogue"])
        self._audit_topics(person, context)
        return _tokens(context["dialogue"])

    def _count(self, person: Person, found: Counter[str]) -> None:
        for turn in person.turns:
            self.counts.recorded += found[turn.token]
            self.counts.marked += found[f"{turn.token}!"]
            self.counts.late += found[turn.token] if turn.outcome == "cancelled" else 0

    def _audit_dialogue(self, person: Person, dialogue: Section) -> None:
        found = _tokens(dialogue)
        for turn in person.turns:
            whole, marked = found.pop(turn.token, 0), found.pop(f"{turn.token}!", 0)
            if (whole, marked) not in self._allowed(turn):
                self.fault(
                    person, f"{turn.token}, {turn.outcome}, is stored {whole} times and {marked} interrupted"
                )
        if found:
            self.fault(person, f"the dialogue has {sorted(found)}, which the person never said")
        for entry in dialogue["entries"]:
            if "response" in entry:
                turn = self.turn(entry["request"])
                cut = entry.get("interrupted") and turn.heard.startswith(entry["response"])
                if entry["response"] != turn.heard and not cut:
                    self.fault(person, f"{turn.token} heard {turn.heard!r}, stored is {entry['response']!r}")

    def _allowed(self, turn: Turn) -> set[tuple[int, int]]:
        """Return how often a turn may be stored: as completed, and as interrupted."""
        if turn.outcome == "answered":
            return {(1, 0)}
        if turn.outcome != "cancelled" or turn.note:
            return {(0, 0)}
        allowed = {(0, 1) if self.plan.record_interrupted else (0, 0)}
        if turn.heard == "".join(turn.pieces(turn.person.secret)):
            allowed.add((1, 0))  # it was cancelled when all had been said
        elif not turn.asked:
            allowed.add((0, 0))  # it had not begun
        return allowed

    def _audit_topics(self, person: Person, context: ParticipantContext) -> None:
        found = _tokens(section(context, NOTES.name))
        for token, acknowledged in person.published.items():
            times = found.pop(token, 0)
            if times != 1 and (times or acknowledged):
                self.fault(person, f"update {token} is stored {times} times")
        if found:
            self.fault(person, f"the notes have {sorted(found)}, which nobody published")
        seen = context["states"].get(CAMERA.name)
        if (_TOKEN.findall(seen["text"]) if seen else []) != ([person.seen] if person.seen else []):
            self.fault(person, f"the state is {seen}, and not {person.seen}")

    def _look_for_tasks(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self.counts.tasks_left += len(left)
        self.faults += [f"task {task.get_name()!r} is left" for task in left]

    def _look_at_responses(self) -> None:
        """See to it that each response has ended, and says what its turn was to say, or the beginning of it."""
        self.faults += [repr(error) for error in self._voice.errors]
        self._voice.errors.clear()
        self.counts.responses += len(self._voice.responses)
        for spoken in self._voice.responses:
            said = "".join(spoken.pieces)
            turn = self.by_id.get(spoken.request or "")
            if spoken.open:
                self.faults.append(f"{spoken.source} never ended {said!r}")
            if turn is None or spoken.participant != turn.person.participant:
                self.faults.append(f"{spoken.participant} heard {said!r} of nobody's turn")
            elif spoken.source == "talk":
                whole = "".join(turn.pieces(turn.person.secret))
                if not whole.startswith(said) or (turn.outcome == "answered" and said != whole):
                    self.fault(turn.person, f"{turn.token}, {turn.outcome}, said {said!r}")
        outcomes = Counter(turn.outcome for turn in self._by_token.values())
        self.counts.answered += outcomes["answered"]
        self.counts.cancelled += outcomes["cancelled"]
        self.counts.unreached += outcomes["unreached"]

    def _look_at_what_is_held(self) -> None:
        held = self.held()
        self.counts.held += sum(held.values())
        if any(held.values()):
            self.faults.append(f"of people who left is held: {held}")

    def held(self) -> dict[str, int]:
        """Return how much router, manager and store hold of participants."""
        saver = self._context._ledger._store.saver
        assert isinstance(saver, InMemorySaver)
        return {
            "lanes": len(self._router._lanes),
            "records": len(self._context._participants.all()),
            "threads": len(saver.storage),
            "blobs": len(saver.blobs),
            "writes": len(saver.writes),
        }

    def _forget(self) -> None:
        """Keep nothing of a round, so that what memory grows by is not ours."""
        self._voice.forget()
        self._answers.requests.clear()
        self._summaries.requests.clear()
        self.by_id.clear()
        self._by_token.clear()
        self._current.clear()


def objects() -> Counter[str]:
    """Return how many objects of each of the package's classes there are."""
    gc.collect()
    kinds = Counter(map(type, gc.get_objects()))
    return Counter(
        {
            kind.__qualname__: n
            for kind, n in kinds.items()
            if str(kind.__module__).startswith("xr_ai_conversation")
        }
    )


def _secrets(text: str) -> str:
    return " ".join(sorted(set(_SECRET.findall(text))))


def _tokens(found: Section) -> Counter[str]:
    """Return the tokens of a section, as its summary and its entries have them."""
    tokens = Counter(_TOKEN.findall(found["summary"]["text"]) if found["summary"] else ())
    for entry in found["entries"]:
        if "request" in entry:
            mark = "!" if entry.get("interrupted") else ""
            tokens.update(token + mark for token in _TOKEN.findall(entry["request"]))
        else:
            tokens.update(_TOKEN.findall(entry["text"]))
    return tokens


__all__ = ["Counts", "Plan", "Soak", "objects"]
