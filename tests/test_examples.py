# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The examples: the lab assistant's scene with a scripted model, and each as a person starts it, on the embedded one."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from doctest import ELLIPSIS, OutputChecker
from pathlib import Path
from typing import Any

import pytest
from fakes.chat import Piece, ScriptedModel, says, texts
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableLambda
from served import STUDIO, serving_studio

from xr_ai_conversation import CompactionPrompts

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
EXAMPLE, SERVED = EXAMPLES / "lab_assistant.py", "studio_client.py"
SHORT = sorted(path.name for path in EXAMPLES.glob("*.py") if path != EXAMPLE)
SHOWN = {
    "agent_memory.py": """\
ann: Where is the spare key?
agent: ...drawer seven...
[2 blocks of context]
ann: What is the capital of France?
agent: ...
ann: Where was the spare key?
agent: ...drawer seven...
[4 blocks of context]
""",
    "chain.py": """\
...drawer seven...
['...drawer seven...', '...drawer two...']
...kitchen... [answer] [record]
""",
    "parent_graph.py": """\
monday, ann: ...Biscuit...
[2 messages are remembered of ann]
tuesday, bob: ...Max...
[2 messages are remembered of bob]
friday, ann: ...Biscuit...
[4 messages are remembered of ann]
""",
    "restart.py": """\
ann: Where is the spare key?
agent: ...drawer seven...
[restart]
ann: Where is the screwdriver?
agent: ...kitchen...
[update: the context has ... bytes]
[record: the context has ... bytes]
[update: the context has ... bytes]
[record: the context has ... bytes]
[turn-1 was answered from this, exact: True]
Recorded context. ...
<BLANKLINE>
Update on "notes" at ...:
update> The spare key is in drawer seven.
<BLANKLINE>
Current time: ...
""",
    "studio_client.py": """\
Where is the spare key? ...drawer seven... [answer] [record]
[..., next: none]
[..., next: record]
[..., next: answer]
[..., next: __start__]
[..., next: none]
[..., next: update]
[..., next: __start__]
Where is the spare key? ...drawer two... [answer] [record]
""",
    "thread.py": """\
camera The spare key is in drawer seven.  [update]
camera The spare key is on the table.  [update]
Where is the spare key? ...table... [answer, record]
[0 runs ago it had seen: The spare key is on the table.]
[1 runs ago it had seen: The spare key is on the table.]
[2 runs ago it had seen: The spare key is in drawer seven.]
Where is the spare key? ...drawer seven... [answer, record]
notes The lamp in the hall is broken.  [update]
notes The glass comes on Friday.  [update]
notes Pump two leaks.  [update, compact]
""",
    "xr_destination.py": """\
...Paris... [world]
...drawer seven... [lab]
State of "lab.seen" at ...:
state> The spare key is in drawer seven.
Exchange at ...:
user> What is the capital of France?
assistant> ...Paris...
Exchange at ...:
user> Where is the spare key?
assistant> ...drawer seven...
""",
}
"""What each short example prints, but for the model's words and the times."""
KEY, STORY = "The key is in drawer seven.", "Tell me a long story about a laboratory."


def load() -> Any:
    spec = importlib.util.spec_from_file_location("lab_assistant", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class LabModel(ScriptedModel):
    """Chooses the notes, tells a story without an end, and knows where the key is if it was told so."""

    def with_structured_output(self, schema: Any, **_: Any) -> Runnable[Any, Any]:
        def choose(message: AIMessage) -> dict[str, Any]:
            return {"raw": message, "parsed": {"route": "notes"}, "parsing_error": None}

        return self | RunnableLambda(choose)


async def answer(messages: list[BaseMessage]) -> AsyncIterator[Piece]:
    if messages[-1].text == STORY:
        while True:
            await asyncio.sleep(0)
            yield "once "
    context = messages[-2].text if len(messages) > 1 else ""  # a decision has one message
    yield KEY if "drawer seven" in context else "I do not know."


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = load()
    monkeypatch.setattr(module, "PACE_S", 0.002)
    monkeypatch.setattr(module, "TYPING_S", 0.05)
    return module


async def test_the_scene_is_played_and_nothing_is_left(lab: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model, front_end = LabModel(script=answer), lab.FrontEnd()
    visits = [lab.played(front_end, script) for script in lab.SCENE]
    async with asyncio.timeout(20):
        await lab.lab(model, LabModel(script=says("A summary.")), CompactionPrompts(), front_end, visits)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    shown = capsys.readouterr().out
    check(shown)
    assert KEY in after(shown, "Where is the spare key?")
    assert "I do not know." in after(shown, "Where is the spare key?", visit=2)
    *_, last = (texts(request) for request in model.requests)
    assert "drawer" not in last[1]
    assert model.closed == len(model.requests)


async def test_leaving_in_the_middle_of_an_answer_ends_it(
    lab: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    model, front_end = LabModel(script=answer), lab.FrontEnd()

    async def lines() -> AsyncIterator[str]:
        yield STORY
        await front_end.speaking.wait()

    async with asyncio.timeout(20):
        await lab.lab(model, model, CompactionPrompts(), front_end, [lines()])
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert re.search(r"conversation → ann: (once )+ \[interrupted\]\n\[ann left", capsys.readouterr().out)
    assert model.closed == 1


@pytest.mark.parametrize(
    ("text", "routes"),
    [
        ("Note that the pump leaks.", {"notes"}),
        ("remember: the pump leaks", {"notes"}),
        ("I want you to note that the pump leaks.", {"notes", "conversation"}),
        ("Do you remember the pump?", {"conversation"}),
        ("Remember where the pump is?", {"conversation"}),
        ("Note", {"conversation"}),
        ("Notebooks are cheap.", {"conversation"}),
        ("Where is the pump?", {"conversation"}),
    ],
)
def test_the_words_of_a_query_decide_whether_it_can_be_a_note(lab: Any, text: str, routes: set[str]) -> None:
    found = {name for name, found in (("notes", lab.NOTE.search(text)),) if found}
    if not lab.NOTE.match(text):
        found.add("conversation")
    assert found == routes


@pytest.mark.model
def test_the_scene_runs_on_the_embedded_model_where_nobody_types(tmp_path: Path) -> None:
    shown = run(EXAMPLE, tmp_path)
    check(shown)
    assert "H2O" in after(shown, "What is the chemical formula of water?")
    assert "drawer seven" in after(shown, "Where is the spare key?")
    assert re.search("screwdriver|bottle", after(shown, "What does the camera see?"))
    again = shown.split("[interrupted]")[1].split("[ann left")[0]
    assert "The spare key is in drawer seven" in again
    assert "drawer" not in after(shown, "Where is the spare key?", visit=2)


@pytest.mark.model
def test_a_person_interrupts_and_leaves_by_keys() -> None:
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-W", "error", EXAMPLE], stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        shown = read(master, "comes: 0 blocks of context]\r\nann: ")
        os.write(master, f"{STORY}\n".encode())
        shown += read(master, "laboratory is")
        process.send_signal(signal.SIGINT)
        shown += read(master, "ann: ")
        os.write(master, f"{STORY}\n".encode())
        shown += read(master, "laboratory is")
        os.write(master, b"note that the pump leaks\n")
        shown += read(master, "Noted: the pump leaks\r\n")
        os.write(master, b"\x04")
        shown += read(master, "0 blocks of context now]\r\n")
        assert process.wait(60) == 0
    os.close(master)
    assert len(re.findall(r"conversation → ann: .*\s*\[interrupted\]", shown)) == 2


@pytest.fixture
def arguments(name: str, tmp_path: Path) -> Iterator[list[str]]:
    """What an example is started with: the address of a server if it needs one."""
    if name != SERVED:
        yield []
        return
    with serving_studio(tmp_path) as server:
        yield [server.url]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=STUDIO if name == SERVED else pytest.mark.model) for name in SHORT]
)
def test_an_example_runs_on_the_embedded_model_and_shows_what_it_is_for(
    name: str, arguments: list[str], tmp_path: Path
) -> None:
    shown = run(EXAMPLES / name, tmp_path, *arguments)
    assert OutputChecker().check_output(SHOWN[name], shown, ELLIPSIS), shown


@pytest.mark.parametrize("name", SHORT)
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 60


def run(example: Path, home: Path, *arguments: str) -> str:
    """Return what an example prints that is started where nothing is set, and nobody types."""
    done = subprocess.run(
        [sys.executable, "-W", "error", example, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"PATH": os.defpath, "HOME": str(home), "PYTHONIOENCODING": "utf-8"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def check(shown: str) -> None:
    """See to it that each step of the scene is shown, whatever the model says."""
    assert "notes → ann: Noted: the spare key is in drawer seven.\n" in after(shown, "Note that")
    assert "notes → ann: Noted: pump two leaks.\n" in after(shown, "I want you to note that pump two leaks.")
    for question in ("What is the chemical formula of water?", "What does the camera see?"):
        assert "conversation → ann: " in after(shown, question)
    assert re.fullmatch(r"conversation → ann: .+ \[interrupted\]\n(\[.*\]\n)?", after(shown, STORY))
    assert re.findall(r"\[ann comes: (\d+) blocks", shown) == ["0", "0"]
    left = re.findall(r"\[ann left: (\d+) blocks of context before, (\d+) blocks of context now\]", shown)
    assert [(int(before) > 0, now) for before, now in left] == [(True, "0"), (True, "0")]
    assert int(left[0][0]) > int(left[1][0])


def after(shown: str, line: str, *, visit: int = 1) -> str:
    """Return what a visit shows between a line of the participant's and the next."""
    return (
        shown.split("[ann comes:")[visit].split(f"ann: {line}")[1].split("\nann: ")[0].split("\n", 1)[1]
        + "\n"
    )


def read(terminal: int, end: str) -> str:
    """Return what comes until a text has come."""
    shown, late = "", time.monotonic() + 120
    while end not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0, late - time.monotonic()))
        assert ready, f"{end!r} does not come after {shown!r}"
        shown += os.read(terminal, 1).decode("utf-8", "surrogateescape")
    return shown.encode("utf-8", "surrogateescape").decode()
