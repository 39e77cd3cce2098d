# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A lab assistant with everything around it: router, notes, a camera, and a front end that can be interrupted.

    uv run python examples/lab_assistant.py

It runs on the embedded model: no key, no network. In a terminal you are the participant: a line asks, "note that ..."
notes, an empty line or Ctrl-C interrupts what is being said, and Ctrl-D leaves. With `--demo`, or when its input is no
terminal, it plays a scene by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from inspect import isawaitable
from itertools import cycle

from langchain_core.language_models import BaseChatModel

from xr_ai_conversation import CompactionPrompts, ContextManager, Conversation
from xr_ai_conversation.models import EmbeddedModel
from xr_ai_conversation.xr import (
    VOICE_OUTPUT_TOPIC,
    Admission,
    Agent,
    AgentExchange,
    AgentRouter,
    AgentRuntime,
    AgentTurn,
    ChatDecisions,
    ConversationContextUpdate,
    DestinationResult,
    Interrupted,
    ParticipantLeft,
    ResponseOutput,
    RoutingAid,
    RuntimeContext,
    Started,
    Topic,
    UserQuery,
    current_turn_context,
    subscribe,
)

QUERY = Topic("lab.query", UserQuery)
INTERRUPTED = Topic("lab.interrupted", Interrupted)
LEFT = Topic("lab.left", ParticipantLeft)
CAMERA = Topic("lab.camera", ConversationContextUpdate)
NOTES = Topic("lab.notes", ConversationContextUpdate)

NOTE = re.compile(r"\b(?:note|remember)(?: that)?[ :,]+(.*[^?\s])\s*\Z", re.IGNORECASE | re.DOTALL)
"""What may be a note; a question is none. A query that begins like this goes to the note taker, one that does not match
goes to the conversation, and the model chooses only in between ("I want you to note ..."): a very small one often errs,
and then talks of the note instead of taking it, or the other way round."""

PARTICIPANT = "ann"
INSTRUCTIONS = "You are the assistant of a lab. Answer in one short sentence."
PACE_S = 0.06
"""How long it takes to speak one piece of an answer; whoever publishes the next one waits."""
TYPING_S = 0.5
"""How long the participant of the scene takes for a line."""
CAMERA_S = 5.0
"""How long the camera sees the same."""
SIGHTS = (
    "The camera sees Ann at the bench with a red screwdriver.",
    "The camera sees Ann at the sink with a glass bottle.",
)
SCENE = (
    (
        "What is the chemical formula of water?",
        "Note that the spare key is in drawer seven.",
        "Where is the spare key?",
        "I want you to note that pump two leaks.",
        "What does the camera see?",
        "Tell me a long story about a laboratory.",
        "",  # interrupts the story
        "Where is the spare key?",
    ),
    ("Where is the spare key?",),  # another visit, under the same id
)


class NoteTaker:
    """The destination that writes down what it is told; the conversation finds it in the context."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self.routing = RoutingAid(
            "Writes down what the participant asks to note or remember.",
            eligible=lambda turn: NOTE.search(turn.text) is not None,
        )

    async def admit(self, turn: AgentTurn) -> Admission:
        """Take every turn that is routed here."""
        return Admission("accept")

    async def answer(self, turn: AgentTurn, started: Started | None = None) -> DestinationResult:
        """Publish the note, and confirm it when it is stored."""
        source, found = current_turn_context().route, NOTE.search(turn.text)
        note = found[1] if found else turn.text
        said, who, when = f"Noted: {note}", turn.participant_id, turn.timestamp_us
        update = ConversationContextUpdate(text=note)
        await self._runtime.publish(NOTES, update, participant_id=who, source=source)
        if started is not None and isawaitable(begun := started()):
            await begun
        reply = ResponseOutput(kind="reply", text=said, request_id=turn.turn_id, timestamp_us=when)
        await self._runtime.publish(VOICE_OUTPUT_TOPIC, reply, participant_id=who, source=source)
        return DestinationResult(AgentExchange(turn.text, said, when, turn.turn_id))

    async def release(self, participant_id: str) -> None:
        """Never has the focus."""

    async def participant_left(self, participant_id: str) -> None:
        """Keeps nothing itself."""


class FrontEnd(Agent):
    """Shows what is said at the pace of speech, as a voice layer would say it; the next piece waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.speaking = asyncio.Event()
        self.quiet = asyncio.Event()
        self.quiet.set()
        self._request: str | None = None
        self._sight = ""

    @subscribe(VOICE_OUTPUT_TOPIC)
    async def speak(self, output: ResponseOutput, context: RuntimeContext) -> None:
        """Say a piece, unless it belongs to a request that is not wanted any more."""
        if output.request_id != self._request:
            return
        if not self.speaking.is_set():
            show(f"{context.metadata.source} → {context.metadata.participant_id}: ")
            self.speaking.set()
        show(output.text)
        if output.final:
            self._end("\n")
            self.prompt()
        else:
            await asyncio.sleep(PACE_S)

    @subscribe(QUERY)
    async def asked(self, query: UserQuery, context: RuntimeContext) -> None:
        """Drop what is being said, and wait for the answer to the new request."""
        self._end(" [interrupted]\n")
        self._request = context.metadata.message_id
        self.quiet.clear()

    @subscribe(INTERRUPTED)
    async def interrupted(self, notice: Interrupted, context: RuntimeContext) -> None:
        """Drop what is being said; the router cancels the turn meanwhile."""
        if self.quiet.is_set():
            show("\n")
        self._end(" [interrupted]\n")
        self.prompt()

    @subscribe(LEFT)
    async def left(self, notice: ParticipantLeft, context: RuntimeContext) -> None:
        """Drop what is being said, and what was seen."""
        self._end(" [interrupted]")
        show("\n")
        self._sight = ""

    @subscribe(CAMERA)
    async def seen(self, update: ConversationContextUpdate, context: RuntimeContext) -> None:
        """Keep what the camera sees until nobody speaks."""
        self._sight = f"[{update.text}]\n"

    def prompt(self) -> None:
        """Show that it is the participant's turn, and what the camera saw meanwhile."""
        show(f"{self._sight}{PARTICIPANT}: ")
        self._sight = ""

    def _end(self, mark: str) -> None:
        if self._request is not None:
            show(mark)
        self._request = None
        self.speaking.clear()
        self.quiet.set()


def show(text: str) -> None:
    """Write text at once."""
    print(text, end="", flush=True)


async def watch(runtime: AgentRuntime) -> None:
    """Publish what the camera sees, time and again."""
    for sight in cycle(SIGHTS):
        update = ConversationContextUpdate(text=sight)
        await runtime.publish(CAMERA, update, participant_id=PARTICIPANT, source="camera")
        await asyncio.sleep(CAMERA_S)


async def typed() -> AsyncIterator[str]:
    """Yield what is typed until Ctrl-D; Ctrl-C is an empty line."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str | None] = asyncio.Queue()

    def put(line: str | None) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, line)

    def read() -> None:
        with open(0, closefd=False, errors="replace") as terminal:
            for line in terminal:
                put(line.strip())
        put(None)

    # waiting for a line cannot be cancelled: a daemon does not keep the process
    threading.Thread(target=read, daemon=True).start()
    before = signal.signal(signal.SIGINT, lambda *_: put(""))
    try:
        while (line := await lines.get()) is not None:
            yield line
    finally:
        signal.signal(signal.SIGINT, before)


async def played(front_end: FrontEnd, script: Sequence[str]) -> AsyncIterator[str]:
    """Yield the lines of a script, each when the answer before it is over; an empty one comes in its middle."""
    for line in script:
        if line:
            await front_end.quiet.wait()
            await asyncio.sleep(TYPING_S)
            show(f"{line}\n")
        else:
            await front_end.speaking.wait()
            await asyncio.sleep(15 * PACE_S)
        yield line
    await front_end.quiet.wait()
    await asyncio.sleep(TYPING_S)


async def lab(
    answers: BaseChatModel,
    summaries: BaseChatModel,
    prompts: CompactionPrompts,
    front_end: FrontEnd,
    visits: Sequence[AsyncIterator[str]],
) -> None:
    """Put the parts together, let the participant visit, and end them: what calls another part ends before it."""
    runtime = AgentRuntime()
    async with ContextManager(
        summaries,
        prompts=prompts,
        summary_context_topics=(CAMERA.name,),
        incremental_context_topics=(NOTES.name,),
    ) as context:
        conversation = Conversation(
            answers,
            context=context,
            instructions=INSTRUCTIONS,
            routing=RoutingAid(
                "Talks, and answers questions.", eligible=lambda turn: not NOTE.match(turn.text)
            ),
            runtime=runtime,
            output_topic=VOICE_OUTPUT_TOPIC,
        )
        router = AgentRouter(
            {"conversation": conversation, "notes": NoteTaker(runtime)},
            ChatDecisions(answers),
            default="conversation",
            query_topic=QUERY,
            output_topic=VOICE_OUTPUT_TOPIC,
            interrupted_topic=INTERRUPTED,
            left_topic=LEFT,
            cleanup_participant=context.clear,
        )
        runtime.register("context", context.subscriber())
        runtime.register("router", router)
        runtime.register("front-end", front_end)
        try:
            async with runtime:
                try:
                    for lines in visits:
                        await visit(lines, runtime, router, context, front_end)
                finally:
                    await router.stop()
        finally:
            await conversation.close()


async def visit(
    lines: AsyncIterator[str],
    runtime: AgentRuntime,
    router: AgentRouter,
    context: ContextManager,
    front_end: FrontEnd,
) -> None:
    """Publish what the participant does, from the first line until the departure, and say what is remembered."""

    async def remembered() -> str:
        return f"{len(await context.blocks(PARTICIPANT))} blocks of context"

    show(f"[{PARTICIPANT} comes: {await remembered()}]\n")
    async with asyncio.TaskGroup() as group:
        # the camera ends before the departure: what it published later would begin a new context
        camera = group.create_task(watch(runtime))
        front_end.prompt()
        async for line in lines:
            if line:
                await runtime.publish(QUERY, UserQuery(text=line), participant_id=PARTICIPANT)
            else:
                await runtime.publish(INTERRUPTED, Interrupted(), participant_id=PARTICIPANT)
        camera.cancel()
    before = await remembered()
    await runtime.publish(LEFT, ParticipantLeft(), participant_id=PARTICIPANT)
    # the notice began the departure and did not wait for it; this does
    await router.participant_left(PARTICIPANT)
    show(f"[{PARTICIPANT} left: {before} before, {await remembered()} now]\n")


async def main(*, demo: bool) -> None:
    """Load the model, and open the lab."""
    front_end = FrontEnd()
    visits = [played(front_end, script) for script in SCENE] if demo else [typed()]
    # a warning would land in the middle of what is being said
    logging.getLogger("xr_ai_conversation").setLevel(logging.ERROR)
    show("Loading the model, which takes a few seconds ...\n")
    async with EmbeddedModel() as model:
        await lab(model.answers, model.summaries, model.prompts, front_end, visits)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", action="store_true", help="play the scene, also in a terminal")
    arguments = parser.parse_args()
    try:
        asyncio.run(main(demo=arguments.demo or not os.isatty(0)))
    except KeyboardInterrupt:
        sys.exit(130)
