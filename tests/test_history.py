# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What the past tells: the messages that an answer was made from, and what each commit changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from conftest import OpenSaver
from fakes.chat import Piece, ScriptedModel, asks_for_summary, replies, says, texts
from fakes.clock import Clock
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from test_xr_conversation import ASKED_US, Speaker, Stage, gone, turn

from xr_ai_conversation import Change, ContextManager, Conversation, HistoryError, build_graph
from xr_ai_conversation.xr import AgentExchange

THREAD: RunnableConfig = {"configurable": {"thread_id": "p"}}

EARLIER = "2026-03-02T13:00:00.000000+01:00"


class Talker:
    """A model that answers a request when it is told to; others may be answered meanwhile."""

    def __init__(self) -> None:
        self.asked: dict[str, asyncio.Event] = {}
        self.told: dict[str, asyncio.Event] = {}
        self.model = ScriptedModel(script=self._script)

    async def _script(self, messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        request = texts(messages)[2]
        if request in self.asked:
            self.asked[request].set()
            await self.told[request].wait()
        yield f"Answer to {request}"

    def hold(self, request: str) -> None:
        """Let an answer wait."""
        self.asked[request], self.told[request] = asyncio.Event(), asyncio.Event()


def manager(clock: Clock, saver: Any = None, **options: Any) -> ContextManager:
    summaries = ScriptedModel(script=says("They spoke."))
    options = {"incremental_context_topics": ["notes"], "summary_context_topics": ["camera"], **options}
    return ContextManager(summaries, clock=clock, checkpointer=saver, **options)


async def answer(talk: Conversation, text: str, turn_id: str | None = None) -> None:
    async for _ in talk.stream("p", text, turn_id=turn_id):
        pass


async def edit(saver: Any, change: Callable[[Any], object]) -> None:
    """Change the newest context by hand, as it is done in Studio; Any: what is JSON there."""
    compiled = build_graph(ScriptedModel()).compile(checkpointer=saver)
    context = (await compiled.aget_state(THREAD)).values["context"]
    change(context)
    await compiled.aupdate_state(THREAD, {"context": context}, as_node="record")


async def explains_all(talk: Conversation, model: ScriptedModel) -> None:
    """Check of each request of a model, whose text is the id of its turn, that it is explained as it was sent."""
    for sent in model.requests:
        told = await talk.explain("p", texts(sent)[2])
        assert texts(told.messages) == texts(sent)
        assert [message.type for message in told.messages] == ["system", "human", "human"]
        assert told.exact
        assert told.manifest["bytes"] == len(texts(sent)[1].encode())


# explain


async def test_what_was_sent_is_told_of_every_turn_of_a_long_session(
    open_saver: OpenSaver, clock: Clock
) -> None:
    model = ScriptedModel(script=replies(lambda messages: f"{texts(messages)[2]} " * 90))
    async with open_saver() as saver, manager(clock, saver) as context:
        talk = Conversation(model, context=context, instructions="Be brief.")
        for number in range(25):
            await context.update("p", "notes", f"note {number} " * 40)
            await context.update("p", "camera", f"view {number}")
            await answer(talk, f"t{number}", f"t{number}")
            clock.move(minutes=7)
        await context.settled()
        assert (await context.snapshot("p"))["dialogue"]["summary"]
        await explains_all(talk, model)
    async with open_saver() as saver, manager(clock, saver) as context:
        again = Conversation(ScriptedModel(), context=context, instructions="Be brief.")
        await explains_all(again, model)


@pytest.mark.parametrize("owned", [True, False])
async def test_an_answer_is_explained_by_what_it_saw_not_by_what_came_before_its_record(
    owned: bool, clock: Clock
) -> None:
    talker = Talker()
    async with manager(clock, None if owned else InMemorySaver()) as context:
        talk = Conversation(talker.model, context=context)
        await answer(talk, "first", "first")
        talker.hold("slow")
        slow = asyncio.create_task(answer(talk, "slow", "slow"))
        await talker.asked["slow"].wait()
        await context.update("p", "notes", "This came too late.")
        await answer(talk, "quick", "quick")
        clock.move(minutes=1)
        talker.told["slow"].set()
        await slow
        await explains_all(talk, talker.model)
        told = await talk.explain("p", "slow")
    assert "too late" not in texts(told.messages)[1] and "quick" not in texts(told.messages)[1]


async def test_a_routed_answer_tells_the_current_time_and_is_recorded_as_of_its_turn(clock: Clock) -> None:
    async with Stage(says("Yes."), clock) as stage:
        clock.move(minutes=3)
        await stage.answer(turn("t", timestamp_us=ASKED_US))
        clock.move(minutes=3)
        await explains_all(stage.talk, stage.model)
        told = await stage.talk.explain("p", "t")
    assert texts(told.messages)[1] == "Current time: Monday 2026-03-02 14:03:00 +01:00"


async def test_an_answer_is_explained_with_the_history_that_it_saw_before_that_was_stored(
    clock: Clock,
) -> None:
    speaker = Speaker("Yes.")
    window = [
        AgentExchange("one", "1", timestamp_us=ASKED_US - 3),
        AgentExchange("two", "2", timestamp_us=ASKED_US - 3),
        AgentExchange("none", None),
        AgentExchange("three", "3", turn_id="earlier"),
    ]
    saver = InMemorySaver()
    async with Stage(speaker.model, clock, saver=saver) as stage:
        await stage.context.record_exchange("p", "before", "0")
        answering = stage.answer(turn("t", exchanges=window))
        await speaker.waiting.wait()
        await stage.context.record_exchange("p", "meanwhile", "4")
        speaker.tell(2)
        await answering
        assert "three" in texts(speaker.model.requests[0])[1]
        await explains_all(stage.talk, speaker.model)
        with pytest.raises(HistoryError, match=r"turn 'earlier' .* another agent, or comes from a router's"):
            await stage.talk.explain("p", "earlier")
        await edit(saver, lambda found: found["dialogue"]["entries"][0].update(response="Another."))
        await explains_all(stage.talk, speaker.model)


async def test_an_interrupted_answer_is_explained_too(clock: Clock) -> None:
    speaker = Speaker("It ", "is")
    async with Stage(speaker.model, clock, record_interrupted=True) as stage:
        await stage.context.record_exchange("p", "before", "0")
        answering = asyncio.create_task(stage.talk.answer(turn("t")))
        speaker.tell()
        await stage.voice.heard(1)
        answering.cancel()
        assert isinstance(await gone(answering), asyncio.CancelledError)
        await explains_all(stage.talk, speaker.model)


async def test_a_turn_is_named_by_its_id_by_its_exchanges_id_or_by_how_long_ago_it_was(clock: Clock) -> None:
    async with manager(clock) as context:
        talk = Conversation(ScriptedModel(), context=context)
        for number in range(3):
            await answer(talk, f"q{number}", f"turn \ud83d {number}")
            clock.move(minutes=1)
        newest = await talk.explain("p")
        assert (newest.turn_id, texts(newest.messages)[2]) == ("turn \ufffd 2", "q2")
        assert await talk.explain("p", "turn \ufffd 2") == newest
        assert await talk.explain("p", newest.entry_id) == newest == await talk.explain("p", -1)
        assert texts((await talk.explain("p", -3)).messages)[2] == "q0"
        for missing in (-4, "q2"):
            with pytest.raises(
                HistoryError, match=rf"turn {missing!r} of participant 'p' is in no checkpoint"
            ):
                await talk.explain("p", missing)
        with pytest.raises(ValueError, match="turn must be an id or a negative number"):
            await talk.explain("p", 0)
        with pytest.raises(TypeError, match="turn must be an id or a negative number, got NoneType"):
            await talk.explain("p", None)  # type: ignore[arg-type]


async def test_a_turn_id_that_is_very_long_is_not_kept(clock: Clock) -> None:
    async with manager(clock) as context:
        talk = Conversation(ScriptedModel(), context=context)
        await answer(talk, "q", "t" * 10_000)
        assert (await talk.explain("p")).turn_id is None
        assert len(str(await context.snapshot("p"))) < 1_000


async def test_what_is_no_longer_kept_is_said_in_a_sentence(open_saver: OpenSaver, clock: Clock) -> None:
    async with open_saver() as saver, manager(clock, saver, history=1) as context:
        talk = Conversation(ScriptedModel(), context=context)
        for number in range(11):  # every tenth commit prunes
            await answer(talk, f"q{number}", f"t{number}")
        await context.close()
    async with open_saver() as saver, manager(clock, saver) as context:
        talk = Conversation(ScriptedModel(), context=context)
        with pytest.raises(HistoryError) as caught:
            await talk.explain("p", "t9")
        assert str(caught.value) == (
            "turn 't9' of participant 'p' was answered from a checkpoint that is no longer kept; history of the "
            "ContextManager says how many are, 120 by default, and none after clear"
        )
        (oldest,) = await context.history("p")
        assert (oldest.node, oldest.changes) == ("", ())
        await context.clear("p")
        assert await context.history("p") == []
        with pytest.raises(HistoryError, match="is in no checkpoint that is kept"):
            await talk.explain("p", "t9")


async def test_an_answer_under_other_budgets_is_not_called_exact(clock: Clock) -> None:
    saver = InMemorySaver()
    async with manager(clock, saver) as context:
        await context.update("p", "notes", "n")
        await answer(Conversation(ScriptedModel(), context=context), "q", "t")
    async with manager(clock, saver, incremental_context_topics=()) as context:
        told = await Conversation(ScriptedModel(), context=context).explain("p", "t")
    assert not told.exact
    assert "update>" not in texts(told.messages)[1]
    assert told.manifest["sections"][-1]["why"] == "not_configured"


async def test_what_another_agent_answered_is_not_explained(clock: Clock) -> None:
    async with manager(clock) as context:
        await context.record_exchange("p", "q", "a", turn_id="t")
        with pytest.raises(HistoryError, match="turn 't' of participant 'p' was answered by another agent"):
            await Conversation(ScriptedModel(), context=context).explain("p", "t")


@pytest.mark.parametrize("given_by", ["the whole graph", "a conversation"])
@pytest.mark.parametrize(
    "edited",
    [
        {"response": "Another."},
        {"request": "Another?"},
        {"time": "2026-03-02T15:00:00.000000+01:00"},
        {"interrupted": True},
        {"turn_id": "other"},
        {"time": "2026-03-02T15:00:00.000000+01:00", "request": "Another?", "response": "Another."},
    ],
    ids=lambda edited: "+".join(edited),
)
async def test_an_answer_that_was_edited_since_is_explained_as_it_was_given(
    given_by: str, edited: dict[str, Any], clock: Clock
) -> None:
    saver, model = InMemorySaver(), ScriptedModel(script=says("As it was."))
    compiled = build_graph(model, clock=clock, incremental_context_topics=["notes"]).compile(
        checkpointer=saver
    )
    async with manager(clock, saver) as context:
        talk = Conversation(model, context=context)
        await context.update("p", "notes", "n")
        for request in ("first", "second"):
            if given_by == "a conversation":
                await answer(talk, request)
            else:
                await compiled.ainvoke({"request": request}, THREAD)
            clock.move(minutes=1)
        told = await talk.explain("p")
        assert (texts(told.messages)[1:], told.exact, told.edited) == (texts(model.requests[1])[1:], True, ())
        await edit(saver, lambda found: found["dialogue"]["entries"][-1].update(edited))
        assert (await talk.explain("p")) == replace(told, edited=tuple(edited))
        await answer(talk, "third")
        await edit(saver, lambda found: found["dialogue"]["entries"].pop(1))
        assert await talk.explain("p", told.entry_id) == replace(told, edited=tuple(edited))


async def test_what_the_whole_graph_answered_before_what_is_kept_is_not_called_anothers(
    clock: Clock,
) -> None:
    saver = InMemorySaver()
    compiled = build_graph(ScriptedModel(), clock=clock).compile(checkpointer=saver)
    for request in ("first", "second"):
        await compiled.ainvoke({"request": request}, THREAD)
        clock.move(minutes=1)
    async with manager(clock, saver, history=1) as context:
        await context.record_exchange("p", "q", "a")
        await context.close()
    async with manager(clock, saver) as context:
        talk = Conversation(ScriptedModel(), context=context)
        for turn in (-2, -3):
            with pytest.raises(HistoryError, match="is no longer kept"):
                await talk.explain("p", turn)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_turns_of_the_whole_graph_are_explained(durability: Any, clock: Clock) -> None:
    model = ScriptedModel(
        script=replies(lambda messages: "S" if asks_for_summary(messages) else "word " * 150)
    )
    graph = build_graph(model, clock=clock, incremental_context_topics=["notes"])
    saver = InMemorySaver()
    compiled = graph.compile(checkpointer=saver)
    for number in range(9):
        await compiled.ainvoke({"topic": "notes", "text": f"n{number}"}, THREAD, durability=durability)
        await compiled.ainvoke({"request": f"q{number}"}, THREAD, durability=durability)
        clock.move(minutes=1)
    sent = [request for request in model.requests if len(request) == 3]
    async with manager(clock, saver) as context:
        talk = Conversation(ScriptedModel(), context=context)
        for number, request in enumerate(sent):
            told = await talk.explain("p", number - len(sent))
            assert texts(told.messages) == texts(request) and told.exact
        nodes = {name for commit in await context.history("p") for name in commit.node.split("+")}
        assert nodes == {"record", "update", "compact"}


async def test_the_state_of_the_whole_graph_shows_what_its_last_answer_was_made_from(clock: Clock) -> None:
    graph = build_graph(ScriptedModel(), clock=clock, incremental_context_topics=["notes"])
    compiled = graph.compile(checkpointer=InMemorySaver())
    await compiled.ainvoke({"topic": "notes", "text": "n"}, THREAD)
    await compiled.ainvoke({"request": "q"}, THREAD)
    values = (await compiled.aget_state(THREAD)).values
    (note,) = values["context"]["topics"]["notes"]["entries"]
    assert [found["shown"] for found in values["manifest"]["sections"]] == [[], [note["id"]]]
    await compiled.ainvoke({"request": "again"}, THREAD)
    again = (await compiled.aget_state(THREAD)).values["manifest"]
    assert [len(found["shown"]) for found in again["sections"]] == [1, 1]
    await compiled.ainvoke({"forget": True}, THREAD)
    assert (await compiled.aget_state(THREAD)).values["manifest"] is None


# history


async def test_history_tells_what_each_commit_changed(open_saver: OpenSaver, clock: Clock) -> None:
    async with open_saver() as saver, manager(clock, saver) as context:
        talk = Conversation(ScriptedModel(script=says("word " * 290)), context=context)
        await context.update("p", "notes", "n")
        await context.update("p", "camera", "red")
        await context.update("p", "camera", "blue")
        await context.reconcile("p", [AgentExchange("old", "o"), AgentExchange("older", "o")])
        await answer(talk, "q", "t1")
        await answer(talk, "r", "t2")
        await answer(talk, "r", "t3")
        await context.settled()
        told = await context.history("p")
        stored = await context.snapshot("p")
    assert [commit.node for commit in told] == [*["update"] * 3, *["record"] * 4, "compact"]
    assert [(c.topic, len(c.added), len(c.left)) for commit in told for c in commit.changes] == [
        ("notes", 1, 0),
        ("camera", 1, 0),
        ("camera", 1, 1),
        (None, 2, 0),
        *[(None, 1, 0)] * 3,
        (None, 0, 4),
    ]
    assert [commit.changes[0].added[-1].get("turn_id") for commit in told[4:7]] == ["t1", "t2", "t3"]
    assert told[-1].changes[0].summary == stored["dialogue"]["summary"]
    assert [commit.bytes["notes"] > 0 for commit in told] == [True] * 8
    assert told[6].bytes[None] > told[5].bytes[None] > told[7].bytes[None] > told[2].bytes[None] == 0
    assert [commit.time for commit in told] == sorted(commit.time for commit in told)
    assert len({commit.checkpoint_id for commit in told}) == 8


@pytest.mark.parametrize("participant", ["nobody"])
async def test_the_history_of_nobody_is_empty_and_makes_nothing(
    open_saver: OpenSaver, clock: Clock, participant: str
) -> None:
    async with open_saver() as saver, manager(clock, saver) as context:
        assert await context.history(participant) == []
        if isinstance(saver, InMemorySaver):
            assert participant not in saver.storage


@pytest.mark.parametrize(
    ("change", "topic", "fields", "grown"),
    [
        (lambda found: found["dialogue"]["entries"][0].update(response="SECRET"), None, ["response"], -394),
        (lambda found: found["dialogue"]["entries"][0].update(request="Hm?"), None, ["request"], -1),
        (lambda found: found["dialogue"]["entries"][0].update(time=EARLIER), None, ["time"], 0),
        (lambda found: found["dialogue"]["entries"][0].update(interrupted=True), None, ["interrupted"], 0),
        (lambda found: found["topics"]["notes"]["entries"][0].update(text="é"), "notes", ["text"], 1),
        (lambda found: found["topics"]["notes"]["entries"][0].update(time=EARLIER), "notes", ["time"], 0),
        (
            lambda found: found["states"]["camera"].update(text="SECRET", time=EARLIER),
            "camera",
            ["time", "text"],
            3,
        ),
        (lambda found: found["dialogue"]["summary"].update(text="SECRET"), None, ["text"], -5),
        (
            lambda found: found["dialogue"]["summary"].update(covers=7, start=EARLIER),
            None,
            ["start", "covers"],
            0,
        ),
        (
            lambda found: found["dialogue"].update(summary=None),
            None,
            ["id", "text", "start", "end", "covers"],
            -11,
        ),
    ],
)
async def test_an_edit_stands_in_the_history_with_what_was_edited_and_without_its_text(
    change: Callable[[Any], object], topic: str | None, fields: list[str], grown: int, clock: Clock
) -> None:
    saver = InMemorySaver()
    async with manager(clock, saver, dialogue_budget_bytes=700) as context:
        await context.update("p", "notes", "n")
        await context.update("p", "camera", "red")
        for number in range(3):
            await context.record_exchange("p", f"{number}", "ok")
        await context.record_exchange("p", "long", "word " * 80)
        await context.settled()
        before = await context.snapshot("p")
        await edit(saver, change)
        *_, told = await context.history("p")
        (changed,) = told.changes
        (found,) = changed.edited
    assert (told.node, changed) == ("edit", Change(topic, edited=(found,)))
    assert ([*found.fields], found.after - found.before) == (fields, grown)
    assert f"'{found.id}'" in str(before) and "SECRET" not in str(told)


async def test_what_is_taken_out_or_added_by_an_edit_is_told_in_its_commit(clock: Clock) -> None:
    saver = InMemorySaver()
    async with manager(clock, saver) as context:
        for number in range(3):
            await context.record_exchange("p", f"{number}", "ok")
        entries = (await context.snapshot("p"))["dialogue"]["entries"]
        await edit(saver, lambda found: found["dialogue"]["entries"].pop(0))
        await edit(
            saver,
            lambda found: found["dialogue"].update(
                entries=[{**entries[1], "response": "no"}, {**entries[2], "id": "new"}]
            ),
        )
        removed, mixed = (await context.history("p"))[-2:]
    assert (removed.node, removed.changes) == ("edit", (Change(None, left=(entries[0],)),))
    ((change,), (only,)) = mixed.changes, mixed.changes[0].edited
    assert (mixed.node, change.added[0]["id"], change.left, only.id) == (
        "edit",
        "new",
        (entries[2],),
        entries[1]["id"],
    )


async def test_a_clear_on_the_whole_graph_stands_in_the_history(clock: Clock) -> None:
    saver = InMemorySaver()
    compiled = build_graph(ScriptedModel(), clock=clock).compile(checkpointer=saver)
    await compiled.ainvoke({"request": "q"}, THREAD)
    await compiled.ainvoke({"forget": True}, THREAD)
    async with manager(clock, saver) as context:
        assert [commit.node for commit in await context.history("p")] == ["record", "clear"]


@pytest.mark.parametrize("forked_by", ["a run", "an edit", "a copy"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_the_past_of_a_fork_is_that_of_its_branch(
    forked_by: str, durability: Any, clock: Clock
) -> None:
    saver, model = InMemorySaver(), ScriptedModel()
    compiled = build_graph(model, clock=clock, incremental_context_topics=["notes"]).compile(
        checkpointer=saver
    )

    async def ask(request: str, config: RunnableConfig = THREAD) -> None:
        await compiled.ainvoke({"request": request}, config, durability=durability)
        clock.move(minutes=1)

    await ask("first")
    begun = await compiled.aget_state(THREAD)
    await ask("left")
    await compiled.ainvoke({"topic": "notes", "text": "left too"}, THREAD, durability=durability)
    if forked_by == "a run":
        await ask("instead", begun.config)
    else:
        edited = begun.values["context"]
        edited["dialogue"]["entries"][0]["response"] = "Another."
        change = {"context": edited} if forked_by == "an edit" else None
        await compiled.aupdate_state(begun.config, change, "record" if change else "__copy__")
        await ask("instead")
    await ask("then")
    sent = {texts(request)[2]: texts(request) for request in model.requests}
    async with manager(clock, saver) as context:
        talk = Conversation(ScriptedModel(), context=context)
        for number, request in enumerate(("then", "instead", "first"), 1):
            told = await talk.explain("p", -number)
            assert (texts(told.messages)[1:], told.exact) == (sent[request][1:], True)
            assert told.edited == (("response",) if (forked_by, request) == ("an edit", "first") else ())
        with pytest.raises(HistoryError, match="is in no checkpoint that is kept of the newest branch"):
            await talk.explain("p", -4)
        commits = await context.history("p")
    added = [entry.get("request") for commit in commits for each in commit.changes for entry in each.added]
    assert added == ["first", "instead", "then"]
    assert ("edit" in [commit.node for commit in commits]) == (forked_by == "an edit")
    assert "left too" not in str(commits)


async def test_an_answer_that_a_fork_overtook_is_explained_by_the_branch_that_it_saw(clock: Clock) -> None:
    saver, talker = InMemorySaver(), Talker()
    compiled = build_graph(ScriptedModel()).compile(checkpointer=saver)
    async with manager(clock, saver) as context:
        talk = Conversation(talker.model, context=context)
        await answer(talk, "first", "first")
        begun = (await compiled.aget_state(THREAD)).config
        await answer(talk, "left", "left")
        talker.hold("slow")
        slow = asyncio.create_task(answer(talk, "slow", "slow"))
        await talker.asked["slow"].wait()
        await compiled.aupdate_state(begun, None, "__copy__")
        talker.told["slow"].set()
        await slow
        told = await talk.explain("p")
        assert (texts(told.messages), told.exact) == (texts(talker.model.requests[-1]), True)
        assert "left" in texts(told.messages)[1]
        with pytest.raises(
            HistoryError, match=r"turn 'left' of .* is in no checkpoint that is kept of the newest branch"
        ):
            await talk.explain("p", "left")


async def test_answers_to_chat_messages_are_explained(clock: Clock) -> None:
    saver, model = InMemorySaver(), ScriptedModel()
    compiled = build_graph(model, clock=clock).compile(checkpointer=saver)
    given: list[Any] = [
        [{"role": "user", "content": "first"}],
        [{"role": "user", "content": [{"type": "text", "text": "in "}, {"type": "text", "text": "blocks"}]}],
        [HumanMessage("lone \ud83d surrogate")],
        [("human", "first"), ("ai", "ok"), ("human", "a whole conversation")],
    ]
    for messages in given:
        await compiled.ainvoke({"messages": messages}, THREAD)
        clock.move(minutes=1)
    async with manager(clock, saver) as context:
        talk = Conversation(ScriptedModel(), context=context)
        for number, request in enumerate(reversed(model.requests), 1):
            told = await talk.explain("p", -number)
            assert (texts(told.messages), told.exact) == (texts(request), True)
        assert [commit.node for commit in await context.history("p")] == ["record"] * 4
