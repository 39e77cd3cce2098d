# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The command line: what it prints where, what it stores, and how it fails."""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakes.chat import Piece, Script, ScriptedModel, asks_for_summary, replies, says, texts
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from xr_ai_conversation import ContextManager, build_graph, open_saver
from xr_ai_conversation.cli import main, piped, terminal
from xr_ai_conversation.cli.database import Place, look_up
from xr_ai_conversation.cli.pictures import remembered, show_messages
from xr_ai_conversation.cli.screen import Notices, harmless
from xr_ai_conversation.cli.session import Session, session
from xr_ai_conversation.cli.settings import Endpoint, Settings, Topic
from xr_ai_conversation.cli.wrapping import Wrapping, wrapped
from xr_ai_conversation.state.context import ParticipantContext

_COMMAND = (sys.executable, "-c", "from xr_ai_conversation.cli import main; main()")


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass
class Command:
    """The command in this process, on one database and with a scripted model."""

    database: Path
    model: ScriptedModel
    capture: pytest.CaptureFixture[str]

    def __call__(self, command: str, *arguments: str, typed: str = "") -> Result:
        with standard_input(typed):
            try:
                main([command, "--db", str(self.database), *arguments])
                code = 0
            except SystemExit as exit_:
                code = int(exit_.code or 0)
        return Result(code, *self.capture.readouterr())

    def chat(self, typed: str, *arguments: str) -> Result:
        return self("chat", "--model", "scripted", *arguments, typed=typed)

    def stored(self, participant: str = "me") -> ParticipantContext:
        return asyncio.run(look_up(Place(self.database), participant))


@contextmanager
def standard_input(text: str) -> Iterator[None]:
    """Put a text in the place of standard input, as a file descriptor."""
    before = os.dup(0)
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    os.dup2(reading, 0)
    os.close(reading)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    scripted = ScriptedModel(script=replies(lambda messages: f"You said: {messages[-1].content}"))
    monkeypatch.setattr(Endpoint, "chat_model", lambda _: scripted)
    return scripted


@pytest.fixture
def run(tmp_path: Path, model: ScriptedModel, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path / "contexts.db", model, capsys)


def one_sentence(text: str) -> bool:
    return text.startswith("Error: ") and text.count("\n") == 1 and text.endswith(".\n")


# Piped


def test_chat_without_a_terminal_answers_line_by_line_and_prints_only_the_answers(run: Command) -> None:
    result = run.chat("one\n\n  two \nthree")
    assert result == Result(0, "You said: one\nYou said: two\nYou said: three\n", "")


def test_a_later_session_remembers_an_earlier_one(run: Command) -> None:
    run.chat("My dog is Rex.\n")
    run.chat("Who is Rex?\n")
    assert "user> My dog is Rex." in texts(run.model.requests[-1])[1]


def test_participants_have_contexts_of_their_own(run: Command) -> None:
    run.chat("My dog is Rex.\n", "--participant", "ann")
    run.chat("Who is Rex?\n", "--participant", "bob")
    assert "user>" not in texts(run.model.requests[-1])[1]


def test_a_note_is_published_on_its_topic_and_confirmed_on_standard_error(run: Command) -> None:
    result = run.chat("/note the weather Rain from noon\nhi\n", "--topic", "the", "--topic", "the weather")
    assert result == Result(0, "You said: hi\n", "Noted on the weather.\n")
    (update,) = run.stored()["topics"]["the weather"]["entries"]
    assert update.get("text") == "Rain from noon"
    assert 'Update on "the weather"' in texts(run.model.requests[-1])[1]


def test_a_note_on_a_summary_topic_replaces_the_last(run: Command) -> None:
    run.chat("/note place Kitchen\n/note place Garden\n", "--topic", "place:summary")
    assert run.stored()["states"]["place"]["text"] == "Garden"


def test_a_stored_topic_need_not_be_named_again(run: Command) -> None:
    run.chat("/note place Kitchen\n/note news Rain\n", "--topic", "place:summary", "--topic", "news")
    assert run.chat("/note place Garden\n/note news Sun\n").code == 0
    assert run.stored()["states"]["place"]["text"] == "Garden"
    assert len(run.stored()["topics"]["news"]["entries"]) == 2


def test_a_chat_without_topics_has_the_topic_notes(run: Command) -> None:
    assert run.chat("/note The pump is off\n/note notes It is on\n").err == "Noted on notes.\n" * 2
    entries = run.stored()["topics"]["notes"]["entries"]
    assert [entry.get("text") for entry in entries] == ["The pump is off", "It is on"]


def test_a_chat_with_topics_given_or_stored_has_no_topic_notes(run: Command) -> None:
    given = run.chat("/note Kitchen\n/help\n", "--topic", "place")
    stored = run.chat("/note Garden\n/help\n")
    for result in (given, stored):
        assert result.err.startswith("Noted on place.\n") and result.err.endswith("\n\ntopics: place\n")


def test_a_note_without_a_topic_goes_to_the_only_incremental_one(run: Command) -> None:
    result = run.chat(
        "/note Rain from noon\n/note place Kitchen\n", "--topic", "news", "--topic", "place:summary"
    )
    assert result.err == "Noted on news.\nNoted on place.\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/note wether Rain", "no topic 'wether': begin the note with one of 'news', 'weather'"),
        ("/note weather", "has no text"),
        ("/note", "/note TOPIC TEXT"),
        ("/nte weather Rain", "no command /nte"),
    ],
)
def test_a_line_that_cannot_be_done_ends_a_piped_session(run: Command, line: str, words: str) -> None:
    result = run.chat(f"first\n{line}\nlast\n", "--topic", "news", "--topic", "weather")
    assert (result.code, result.out) == (1, "You said: first\n")
    assert one_sentence(result.err) and words in result.err


@pytest.mark.parametrize(("stored", "given"), [("place:summary", "place"), ("place", "place:summary")])
def test_a_topic_that_is_stored_as_one_of_the_other_kind_is_a_wrong_option(
    run: Command, stored: str, given: str
) -> None:
    run.chat("/note place Kitchen\n", "--topic", stored)
    for command in (("chat", "--model", "scripted"), ("show",), ("prompt", "hi")):
        result = run(*command, "--topic", given)
        assert (result.code, result.out) == (2, "") and one_sentence(result.err)
        assert f"--topic {given} does not fit" in result.err and f"give --topic {stored}, or" in result.err


def test_a_path_is_no_command(run: Command) -> None:
    assert run.chat("/etc/hosts is what?\n").out == "You said: /etc/hosts is what?\n"


def test_quit_and_help_go_to_standard_error_and_quit_ends_the_session(run: Command) -> None:
    result = run.chat("/help\n/quit\nunread\n")
    assert (result.code, result.out) == (0, "") and "/note TOPIC TEXT" in result.err
    assert result.err.endswith("topics: notes\n")


def test_instructions_stand_in_the_system_message(run: Command) -> None:
    run.chat("hi\n", "--instructions", "Answer like a pirate.")
    assert texts(run.model.requests[0])[0].endswith("Answer like a pirate.")


def test_bytes_that_are_no_text_are_replaced(run: Command) -> None:
    assert run.chat("caf\udce9\n".encode(errors="surrogateescape").decode("latin-1")).code == 0


async def test_lines_come_while_standard_input_stays_open() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one\ntw")
    lines = piped.lines(reading)
    assert await anext(lines) == "one\n"
    os.write(writing, b"o\n")
    assert await anext(lines) == "two\n"
    os.close(writing)
    assert [line async for line in lines] == []
    os.close(reading)


def test_a_model_error_ends_a_piped_session_and_nothing_of_the_answer_is_printed(run: Command) -> None:
    run.model.script = says("half an ans", ConnectionError("away"))
    result = run.chat("hi\n")
    assert (result.code, result.out) == (1, "") and one_sentence(result.err)
    assert not run.stored()["dialogue"]["entries"]


def test_an_empty_answer_is_an_error(run: Command) -> None:
    run.model.script = says("")
    result = run.chat("hi\n")
    assert result.code == 1 and one_sentence(result.err) and "empty answer" in result.err


def test_an_answer_that_was_cut_off_is_said_to_be_stored_as_it_stands(run: Command) -> None:
    run.model.script = says(AIMessageChunk(content="half", response_metadata={"finish_reason": "length"}))
    result = run.chat("hi\n")
    assert (result.code, result.out) == (0, "half\n")
    assert result.err == "the answer was cut off; it is stored as it stands\n"
    (entry,) = run.stored()["dialogue"]["entries"]
    assert entry.get("response") == "half"


# Looking, and forgetting


def test_prompt_prints_the_three_messages_that_the_request_would_send(run: Command) -> None:
    run.chat("/note weather Rain\nMy dog is Rex.\n", "--topic", "weather")
    calls = len(run.model.requests)
    result = run("prompt", "--instructions", "Be brief.", "Who is Rex?")
    headings = re.findall(r"^(.+?) ─+$", result.out, re.MULTILINE)
    assert headings == ["system", "user: the context", "user: the request"]
    for text in ("Be brief.", "user> My dog is Rex.", "update> Rain", "Current time: ", "Who is Rex?"):
        assert text in result.out
    assert len(run.model.requests) == calls


def test_prompt_of_nobody_is_the_time_and_the_request(run: Command) -> None:
    run.chat("kept\n", "--participant", "bob")
    result = run("prompt", "hi")
    assert result.code == 0 and "Recorded context" not in result.out


def test_prompt_breaks_lines_between_words_on_a_terminal_only() -> None:
    messages = [SystemMessage("one two three four"), HumanMessage("five"), HumanMessage("six")]
    for is_terminal, shown in ((True, "one two \nthree four\n"), (False, "one two three four\n")):
        screen = io.StringIO()
        show_messages(Console(file=screen, width=10, force_terminal=is_terminal, color_system=None), messages)
        assert shown in screen.getvalue()


def summarised(messages: list[BaseMessage]) -> str:
    return "Likes tea." if asks_for_summary(messages) else "word " * 30


async def compacted(settings: Settings) -> None:
    async with session(settings, ScriptedModel(script=replies(summarised))) as mine:
        for number in range(4):
            async for _ in mine.answer(f"request {number}"):
                pass
            await mine.context.settled()


def test_show_tells_summary_from_verbatim_with_bytes_budgets_and_spans(run: Command) -> None:
    asyncio.run(compacted(Settings("me", Place(run.database), (), 700, 4_000)))
    run.chat("/note place Kitchen\n", "--topic", "place:summary")
    result = run("show", "--dialogue-budget", "700", "--topic", "news")
    assert result.code == 0
    assert re.search(r"dialogue +▓+█+░* +\d+ of 700 bytes", result.out)
    assert re.search(r"place +█░+ +\d+ of 4,000 bytes", result.out)
    assert re.search(r"news +░+ +0 of 4,000 bytes", result.out)
    covers = run.stored()["dialogue"]["summary"]
    assert covers and re.search(
        rf"summary of {covers['covers']} exchanges, \d{{4}}-.* to \d{{4}}-", result.out
    )
    assert "Likes tea." in result.out and "user> request 3" in result.out and "Kitchen" in result.out


def test_show_of_nobody_says_so_in_a_sentence(run: Command) -> None:
    run.chat("kept\n")
    result = run("show", "--participant", "bob")
    assert result == Result(0, f"Nothing is stored of 'bob' in {run.database}.\n", "")


@pytest.mark.parametrize("command", [("show",), ("prompt", "hi"), ("history",), ("clear",)])
def test_before_the_first_chat_nothing_is_stored_and_no_file_is_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    monkeypatch.setattr("xr_ai_conversation.cli.commands.default_path", lambda: tmp_path / "new" / "x.db")
    main(command)
    assert re.search("Nothing is stored of 'me'|Current time", capsys.readouterr().out)
    assert not (tmp_path / "new").exists()


def test_explain_prints_what_an_answer_was_made_from_and_the_messages_that_were_sent(run: Command) -> None:
    run.chat("My dog is Rex.\n/note weather Rain\nWho is Rex?\nThanks\n", "--topic", "weather")
    sent = run.model.requests[1]
    entry = run.stored()["dialogue"]["entries"][1]
    for turn in (("--turn", "-2"), ("--turn", entry["id"])):
        result = run("explain", *turn)
        assert (result.code, result.err) == (0, "")
        told, _, printed = result.out.partition("\nsystem ─")
        assert told.startswith(f"exchange {entry['id']}, asked {entry['time'][:10]} ")
        assert re.search(r"^  dialogue: \d+ of 8,000 bytes, 1 shown$", told, re.MULTILINE)
        assert re.search(r"^  weather: \d+ of 4,000 bytes, 1 shown$", told, re.MULTILINE)
        assert all(f"\n{text}\n" in printed for text in texts(sent))
        assert printed.endswith("\nYou said: Who is Rex?\n")
    assert len(run.model.requests) == 3


def test_explain_says_when_what_it_prints_is_not_what_was_sent(run: Command) -> None:
    run.chat(f"{'x' * 500}\n{'y' * 500}\n")
    assert run("explain").err == ""
    result = run("explain", "--dialogue-budget", "700")
    assert result.err == "This is not what was sent: topics, budgets or the version were others then.\n"
    assert "of 700 bytes, 1 shown, 1 of them cut" in result.out


async def edited(database: Path, **fields: str) -> None:
    """Change the last exchange of the participant `me` by hand."""
    async with open_saver(database) as saver:
        graph = build_graph(ScriptedModel()).compile(checkpointer=saver)
        thread: RunnableConfig = {"configurable": {"thread_id": "me"}}
        context = (await graph.aget_state(thread)).values["context"]
        context["dialogue"]["entries"][-1].update(fields)
        await graph.aupdate_state(thread, {"context": context}, as_node="record")


def test_explain_says_that_an_answer_was_edited_and_prints_what_was_given(run: Command) -> None:
    run.chat("hi\n")
    before = run("explain").out
    asyncio.run(edited(run.database, request="Another?", response="Another."))
    result = run("explain")
    assert (result.code, result.err) == (0, "")
    told = "edited since (request, response); this is how it was before\n"
    assert told in result.out and result.out.replace(told, "") == before


def test_explain_of_what_is_not_kept_is_one_sentence_and_code_1(run: Command) -> None:
    run.chat("hi\n")
    for arguments in (("--turn", "t7"), ("--turn", "-2"), ("--participant", "bob")):
        result = run("explain", *arguments)
        assert (result.code, result.out) == (1, "") and one_sentence(result.err)
        known = "is in no checkpoint that is kept" if "--turn" in arguments else "Nothing is stored of 'bob'"
        assert known in result.err


def test_history_prints_a_line_for_each_commit(run: Command) -> None:
    asyncio.run(compacted(Settings("me", Place(run.database), (), 700, 4_000)))
    run.chat("/note place Kitchen\n/note place Garden\n", "--topic", "place:summary")
    result = run("history", "--dialogue-budget", "700")
    assert (result.code, result.err) == (0, "")
    heading, *lines = result.out.splitlines()
    assert re.fullmatch(r"time +node +dialogue +place +what changed", heading)
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d"
    assert all(re.match(time, line) for line in lines)
    assert [line.split()[3] for line in lines[:3]] == ["record", "record", "compact"]
    assert re.fullmatch(rf"{time} +record +\d+ +0  \+1 exchange \([\w-]+\)", lines[0])
    assert re.fullmatch(rf"{time} +compact +\d+ +0  dialogue: 1 exchange into a summary of 1", lines[2])
    assert re.fullmatch(rf"{time} +update +\d+ +\d+  \+1 update \([\w-]+\) on place", lines[-1])


def test_history_says_what_was_edited(run: Command) -> None:
    run.chat("hi\n")
    (entry,) = run.stored()["dialogue"]["entries"]
    asyncio.run(edited(run.database, request="hi again", response="No."))
    line = run("history").out.splitlines()[-1]
    assert re.search(r" edit +\d+  dialogue: ", line)
    assert line.endswith(f"dialogue: edited {entry['id']} (request, response; 14 to 11 bytes)")


def test_history_marks_edits_and_compactions_in_its_picture(run: Command, tmp_path: Path) -> None:
    asyncio.run(compacted(Settings("me", Place(run.database), (), 700, 4_000)))
    picture = tmp_path / "history.svg"
    run("history", "--plot", str(picture))
    assert "dialogue compacted" in picture.read_text() and "dialogue edited" not in picture.read_text()
    asyncio.run(edited(run.database, response="No."))
    run("history", "--plot", str(picture))
    assert "dialogue compacted" in picture.read_text() and "dialogue edited" in picture.read_text()


def test_history_draws_a_picture(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(compacted(Settings("me", Place(run.database), (), 700, 4_000)))
    picture = tmp_path / "history.png"
    result = run("history", "--plot", str(picture))
    assert (result.code, result.err) == (0, f"Drawn: {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")
    for name in ("missing/history.png", "history.nothing"):
        result = run("history", "--plot", str(tmp_path / name))
        assert result.code == 1 and one_sentence(result.err) and "cannot be written" in result.err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("history", "--plot", str(picture))
    assert result.code == 1
    assert result.err == "Error: --plot needs matplotlib: pip install 'xr-ai-conversation[plot]'.\n"


def test_what_is_remembered_tells_a_summary_from_what_is_verbatim(run: Command) -> None:
    assert remembered(run.stored()) == "0 exchanges remembered"
    run.chat("hi\n")
    assert remembered(run.stored()) == "1 exchange remembered"
    asyncio.run(compacted(Settings("bob", Place(run.database), (), 700, 4_000)))
    assert re.fullmatch(
        r"\d exchanges? and a summary of earlier ones remembered", remembered(run.stored("bob"))
    )


def test_clear_forgets_one_participant_and_no_other(run: Command) -> None:
    run.chat("secret\n")
    run.chat("kept\n", "--participant", "bob")
    assert run("clear").out == "Everything of 'me' is forgotten.\n"
    assert run("clear").out.startswith("Nothing is stored of 'me'")
    assert b"secret" not in run.database.read_bytes()
    assert run.stored("bob")["dialogue"]["entries"]


def test_clear_asks_on_a_terminal_and_a_no_forgets_nothing(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.chat("kept\n")
    monkeypatch.setattr("xr_ai_conversation.cli.commands.is_terminal", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: False)
    result = run("clear")
    assert result.code == 1 and one_sentence(result.err) and run.stored()["dialogue"]["entries"]
    assert run("clear", "--yes").code == 0 and not run.stored()["dialogue"]["entries"]


# Errors


@pytest.mark.parametrize("command", [("show",), ("prompt", "hi"), ("clear",), ("chat", "--model", "m")])
@pytest.mark.parametrize("participant", ["", "x" * 513, "caf\udce9"])
def test_a_participant_that_cannot_be_is_a_wrong_option(
    run: Command, command: tuple[str, ...], participant: str
) -> None:
    result = run(*command, "--participant", participant)
    assert (result.code, result.out) == (2, "") and one_sentence(result.err)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--dialogue-budget", "10"),
        ("--topic-budget", "10", "--topic", "a"),
        ("--dialogue-budget", "many"),
        ("--topic", "weather:sumary"),
        ("--topic", ""),
        ("--topic", "a", "--topic", "a:summary"),
        ("--nonsense", "1"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_code_2_before_anything_is_made(
    run: Command, arguments: tuple[str, ...]
) -> None:
    result = run.chat("hi\n", *arguments)
    assert (result.code, result.out) == (2, "") and one_sentence(result.err)
    assert arguments[0] in result.err or "topic 'a'" in result.err
    assert not run.database.exists()


def test_a_large_budget_is_no_error(run: Command) -> None:
    assert run.chat("hi\n", "--dialogue-budget", "50000").code == 0


def test_a_model_that_is_not_named_is_a_wrong_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["chat", "--db", str(tmp_path / "x.db"), "--base-url", "http://127.0.0.1:9/v1"])
    assert exit_.value.code == 2 and one_sentence(capsys.readouterr().err)


def test_a_base_url_without_a_scheme_is_a_wrong_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--model", "m", "--base-url", "localhost:8000/v1")
    with pytest.raises(SystemExit) as exit_:
        main(["chat", "--db", str(tmp_path / "x.db"), *arguments])
    said = capsys.readouterr().err
    assert exit_.value.code == 2 and one_sentence(said)
    assert "'localhost:8000/v1': put http:// before it" in said


@pytest.mark.parametrize("command", [("show",), ("prompt", "hi"), ("history",), ("explain",), ("clear",)])
@pytest.mark.parametrize("name", ["x.db", "missing/x.db"])
def test_a_database_that_is_not_there_is_a_wrong_option_and_is_not_made(
    run: Command, tmp_path: Path, command: tuple[str, ...], name: str
) -> None:
    run.database = tmp_path / name
    result = run(*command)
    assert (result.code, result.out) == (2, "") and one_sentence(result.err)
    assert f"there is no file '{run.database}'" in result.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command", [("chat", "--model", "scripted"), ("show",), ("prompt", "hi"), ("clear",)]
)
def test_a_file_that_is_no_database_is_one_sentence_and_code_1(
    run: Command, command: tuple[str, ...]
) -> None:
    run.database.write_text("no database\n" * 100)
    result = run(*command)
    assert (result.code, result.out) == (1, "") and one_sentence(result.err)
    assert "no SQLite database" in result.err
    assert run.database.read_text() == "no database\n" * 100


def test_a_place_where_no_file_can_be_is_one_sentence_and_code_1(run: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run.database = tmp_path / "file" / "below" / "contexts.db"
    result = run.chat("hi\n")
    assert (result.code, result.out) == (1, "") and one_sentence(result.err)
    assert "a part of its path is no directory" in result.err


@pytest.mark.parametrize(
    "command", [("chat", "--model", "scripted"), ("show",), ("prompt", "hi"), ("clear",)]
)
def test_a_file_that_may_not_be_read_is_one_sentence_and_code_1(
    run: Command, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    run.chat("hi\n")
    monkeypatch.setattr(Path, "open", refuse)  # tests may run as root, to whom nothing is refused
    result = run(*command)
    assert (result.code, result.out) == (1, "") and one_sentence(result.err)
    assert "permission denied" in result.err


@pytest.mark.parametrize("command", [("chat", "--model", "m"), ("show",)])
def test_a_directory_is_one_sentence_and_nothing_else(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = subprocess.run(
        (*_COMMAND, *command, "--db", str(tmp_path)),
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"OPENAI_API_KEY": "none"},
    )
    assert (done.returncode, done.stdout) == (1, "") and one_sentence(done.stderr)
    assert "it is a directory" in done.stderr


def test_a_damaged_context_is_one_sentence_and_can_be_forgotten(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.chat("hi\n")
    with monkeypatch.context() as newer:
        newer.setattr(
            "xr_ai_conversation.state.context.load.__kwdefaults__", {"version": 0, "migrations": {}}
        )
        for command in (
            ("show",),
            ("prompt", "hi"),
            ("history",),
            ("explain",),
            ("chat", "--model", "scripted"),
        ):
            result = run(*command)
            assert result.code == 1 and one_sentence(result.err) and "schema_version" in result.err
        assert run("clear").out == "Everything of 'me' is forgotten.\n"


def test_an_encrypted_context_is_one_sentence_and_can_be_forgotten(run: Command) -> None:
    async def encrypted() -> None:
        async with (
            open_saver(run.database, key=b"k" * 16) as saver,
            ContextManager(run.model, checkpointer=saver) as context,
        ):
            await context.record_exchange("me", "hi", "hello")

    asyncio.run(encrypted())
    for command in (("show",), ("prompt", "hi"), ("history",), ("explain",), ("chat", "--model", "scripted")):
        result = run(*command)
        assert result.code == 1 and one_sentence(result.err), command
        assert "open the store with the key that it was written with" in result.err
    assert run("clear").out == "Everything of 'me' is forgotten.\n"
    assert "Nothing is stored" in run("show").out


def test_the_database_is_its_owners_alone_and_its_directory_is_made(run: Command, tmp_path: Path) -> None:
    run.database = tmp_path / "new" / "contexts.db"
    run.chat("hi\n")
    assert run.database.stat().st_mode & 0o777 == 0o600


def test_an_endpoint_that_is_away_is_one_sentence_and_code_1(tmp_path: Path) -> None:
    command = (*_COMMAND, "chat", "--db", str(tmp_path / "x.db"), "--model", "m")
    endpoint = ("--base-url", "http://127.0.0.1:9/v1")
    done = subprocess.run((*command, *endpoint), check=False, input="hi\n", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "") and one_sentence(done.stderr)
    assert "cannot be reached" in done.stderr


def test_the_commands_are_listed_without_loading_a_model() -> None:
    code = "import sys, xr_ai_conversation.cli as c; c.main(['--help']); print(*sys.modules)"
    listed = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True).stdout
    assert "chat " in listed and not {"xllamacpp", "openai", "prompt_toolkit"} & set(listed.split())


# On a terminal


@asynccontextmanager
async def at_terminal(
    database: Path, script: Script
) -> AsyncIterator[tuple[PipeInput, Session, Callable[[], str], asyncio.Task[None]]]:
    """Run an interactive session whose keys are sent by the test."""
    screen = io.StringIO()
    console = Console(file=screen, width=100)
    topics: tuple[Topic, ...] = (("weather", "incremental"), ("news", "incremental"))
    settings = Settings("me", Place(database), topics, 8_000, 4_000)
    async with session(settings, ScriptedModel(script=script)) as mine:
        with (
            create_pipe_input() as keys,
            create_app_session(input=keys),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(terminal, "create_output", lambda **_: DummyOutput())
            task = asyncio.create_task(terminal.converse(mine, console, Notices(console)))
            try:
                yield keys, mine, screen.getvalue, task
            finally:
                task.cancel()
                await asyncio.wait((task,))


async def test_ctrl_c_during_an_answer_cancels_it_keeps_the_session_and_records_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[str] = []

    async def script(messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        if messages[-1].content == "again":
            yield "whole"
            return
        yield "half "
        while "half" not in written:
            written.append(capsys.readouterr().out)
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    async with at_terminal(tmp_path / "x.db", script) as (keys, mine, screen, task):
        keys.send_text("first\ragain\r/quit\r")
        await task
        entries = (await mine.context.snapshot("me"))["dialogue"]["entries"]
    assert [entry["request"] for entry in entries if "request" in entry] == ["again"]
    assert "".join(written) + capsys.readouterr().out == "half\nwhole\n"
    assert "cancelled" in screen()


@pytest.mark.parametrize("keys", ["\x04", "/quit\r", "typed\x03\x04"])
async def test_ctrl_d_and_quit_leave_and_ctrl_c_drops_what_is_typed(tmp_path: Path, keys: str) -> None:
    async with at_terminal(tmp_path / "x.db", says("never asked")) as (pipe, _, screen, task):
        pipe.send_text(keys)
        await task
    assert screen() == ""


async def test_ctrl_c_at_an_empty_prompt_tells_that_ctrl_d_leaves(tmp_path: Path) -> None:
    async with at_terminal(tmp_path / "x.db", says("never asked")) as (pipe, _, screen, task):
        pipe.send_text("\x03\x03\x04")
        await task
    assert screen() == "Ctrl-D leaves\n\n" * 2


async def test_help_lists_the_topics(tmp_path: Path) -> None:
    async with at_terminal(tmp_path / "x.db", says("never asked")) as (pipe, _, screen, task):
        pipe.send_text("/help\r\x04")
        await task
    assert screen().endswith("\ntopics: weather, news\n\n")


async def test_an_answer_is_broken_between_words_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "line_width", lambda: 10)
    async with at_terminal(tmp_path / "x.db", says("one tw", "o thr", "ee four ", "\n")) as (
        keys,
        _,
        _,
        task,
    ):
        keys.send_text("go\r\x04")
        await task
    assert capsys.readouterr().out == "one two\nthree four\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one two three", "one two\nthree"),
        ("1234567890 x", "1234567890\nx"),
        ("one  two\n\n  three four five", "one  two\n\n  three\nfour five"),
        ("a\tb c d", "a\tb\nc d"),
        ("an incomprehensible word", "an\nincomprehensible\nword"),
        ("ab 中文中文中文", "ab 中文中\n文中文"),
        ("", ""),
        ("end \n", "end"),
    ],
)
def test_a_line_is_broken_before_the_word_that_does_not_fit(text: str, shown: str) -> None:
    for cut in range(len(text) + 1):
        lines = Wrapping(10)
        assert lines.feed(text[:cut]) + lines.feed(text[cut:]) + lines.end() == shown


def test_what_goes_into_a_file_is_not_broken() -> None:
    assert wrapped("word " * 100 + "end\n") == "word " * 100 + "end"


async def test_an_error_on_a_terminal_is_said_and_the_session_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = iter([ConnectionError("away")])

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        for error in errors:
            yield error
        yield "whole"

    async with at_terminal(tmp_path / "x.db", script) as (keys, _, screen, task):
        keys.send_text("first\r/note wether Rain\r/note weather Rain\ragain\r\x04")
        await task
    assert capsys.readouterr().out == "whole\n"
    said = [line for line in screen().splitlines() if line]
    assert (
        "cannot be reached" in said[0] and "no topic 'wether'" in said[1] and said[-1] == "noted on weather"
    )


def test_a_warning_waits_for_the_end_of_an_answer() -> None:
    screen = io.StringIO()
    notices = Notices(Console(file=screen))
    warning = logging.LogRecord("x", logging.WARNING, "", 0, "over budget", (), None)
    with notices.held():
        notices.emit(warning)
        assert not screen.getvalue()
    assert screen.getvalue() == "over budget\n"


def test_text_cannot_steer_a_terminal() -> None:
    assert harmless("a\x1b[2Jb\x9bc\n\td\r") == "a\ufffd[2Jb\ufffdc\n\td\ufffd"


# The embedded model


@pytest.mark.model
def test_the_real_command_answers_takes_a_note_shows_and_forgets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "contexts.db"
    done = subprocess.run(
        (*_COMMAND, "chat", "--db", str(database), "--topic", "weather"),
        input="/note weather Rain from noon\nWhat is the capital of France?\n",
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "Noted on weather.\n")
    command = Command(database, ScriptedModel(), capsys)
    entry = command.stored()["dialogue"]["entries"][0]
    assert "response" in entry and done.stdout == f"{entry['response'].strip()}\n"
    assert "update> Rain from noon" in command("prompt", "Do I need a coat?").out
    assert "verbatim, 1 exchange" in command("show").out
    assert command("clear", "--yes").code == 0
    assert command("show").out.startswith("Nothing is stored")


class Screen:
    """A pseudo-terminal with a command on it."""

    def __init__(self, *command: str) -> None:
        self._master, slave = pty.openpty()
        environment = os.environ | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self._text = ""

    def type(self, keys: str) -> None:
        self._text = ""
        os.write(self._master, keys.encode())

    def wait_for(self, pattern: str, within_s: float = 60.0) -> None:
        end = time.monotonic() + within_s
        while not re.search(pattern, self._text, re.DOTALL):
            ready, _, _ = select.select([self._master], [], [], end - time.monotonic())
            assert ready, f"{pattern!r} was not shown within {within_s} s, but {self._text!r}"
            self._text += os.read(self._master, 65_536).decode(errors="replace")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    shown = Screen(*_COMMAND, "chat", "--db", str(tmp_path / "contexts.db"))
    yield shown
    shown.close()


@pytest.mark.model
def test_a_real_answer_is_cancelled_by_an_interrupt_and_the_session_goes_on(
    screen: Screen, tmp_path: Path
) -> None:
    screen.wait_for("SmolLM2.*me › ")
    screen.type("Tell me a very long story about a dragon.\r")
    screen.wait_for("[\u2801-\u28ff].*[A-Za-z]{3}")  # the spinner, then a word of the answer
    screen.process.send_signal(signal.SIGINT)
    screen.wait_for("cancelled.*me › ")
    screen.type("\x04")
    assert screen.process.wait(30) == 0
    context = asyncio.run(look_up(Place(tmp_path / "contexts.db"), "me"))
    assert not context["dialogue"]["entries"] and not context["identities"]


@pytest.mark.model
def test_an_interrupt_of_a_piped_session_ends_it_with_code_130(tmp_path: Path) -> None:
    with subprocess.Popen(
        (*_COMMAND, "chat", "--db", str(tmp_path / "x.db")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write("Say hello.\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)  # while it waits for the next line, with standard input open
        assert process.wait(30) == 130
        assert "Traceback" not in process.stderr.read()


def test_the_database_may_be_postgresql(run: Command, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "database", postgres)
    for command, shown in (
        ("chat", "You said: Hi"),
        ("show", "You said: Hi"),
        ("clear", "forgotten"),
        ("show", "Nothing is stored"),
    ):
        options = {"chat": ["--model", "scripted"], "clear": ["--yes"]}.get(command, [])
        done = run(command, *options, typed="Hi\n")
        assert (done.code, shown in done.out) == (0, True), done


def test_a_postgresql_that_is_away_is_one_sentence_without_its_password(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "database", "postgresql://ann:secret@127.0.0.1:1/lab")
    done = run("show")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error: The database postgresql://127.0.0.1:1/lab cannot be used: ")
    assert "secret" not in done.err
