# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The README and the pages of docs/: what they link to, name and show is there."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import click
import pytest
from fakes.chat import ScriptedModel, replies
from fakes.clock import Clock
from langchain_core.messages import BaseMessage

import xr_ai_conversation
from xr_ai_conversation import ContextManager, Conversation, build_graph, models, xr
from xr_ai_conversation.cli.commands import commands
from xr_ai_conversation.graph import metrics
from xr_ai_conversation.state.reply import Rejection

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = {str(page.relative_to(ROOT)): page for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))}


def text(name: str) -> str:
    return PAGES[name].read_text()


def prose(page: str) -> str:
    """Return a page without its code."""
    return re.sub(r"```.*?```|^ {4}[^\n]*|`[^`\n]*`", "", page, flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """Return what a link into a page may name."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_links_to_is_there(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text(name))):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = (PAGES[name].parent / path).resolve() if path else PAGES[name]
        assert file.is_file(), target
        assert not anchor or anchor in anchors(file.read_text()), target


def test_each_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text())
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_site_loads_no_font_and_no_script_of_another_host() -> None:
    assert "font: false" in (ROOT / "mkdocs.yml").read_text()
    assert not any("```mermaid" in text(name) for name in PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_command_that_a_page_calls_is_there(name: str) -> None:
    assert set(re.findall(r"xr-ai-conversation ([a-z]+)", text(name))) <= {*commands.commands}


def test_each_command_and_option_is_on_the_page_of_the_command_line() -> None:
    page = text("docs/cli.md")
    options = {
        option
        for command in commands.commands.values()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }
    assert set(re.findall(r"^\| `([a-z]+)", page, re.MULTILINE)) == {*commands.commands}
    assert set(re.findall(r"--[a-z][a-z-]+", page)) == options | {"--help"}


@pytest.mark.parametrize(
    ("name", "module"), [("index", xr_ai_conversation), ("models", models), ("xr", xr)], ids=str
)
def test_each_public_name_is_in_the_reference(name: str, module: Any) -> None:
    shown = re.findall(r"^(?::::|##) (?:[\w.]*\.)?(\w+)$", text(f"docs/api/{name}.md"), re.MULTILINE)
    assert set(module.__all__) - {"ConversationContextUpdate"} <= set(shown)
    assert "ConversationContextUpdate" in text("docs/api/index.md")


def test_what_the_reference_shows_is_there() -> None:
    for page in ("index", "models", "xr"):
        for target in re.findall(r"^::: (.*)$", text(f"docs/api/{page}.md"), re.MULTILINE):
            module, _, name = target.rpartition(".")
            assert hasattr(importlib.import_module(module), name), target


@pytest.mark.parametrize("name", PAGES)
def test_a_method_that_a_page_calls_is_there(name: str) -> None:
    for owner, kind in (("context", ContextManager), ("conversation", Conversation)):
        for method in re.findall(rf"\b{owner}\.(\w+)\(", text(name)):
            assert hasattr(kind, method), method


@pytest.mark.parametrize("name", PAGES)
def test_a_fragment_of_a_program_can_be_read(name: str) -> None:
    for code in re.findall(r"```py\n(.*?)```", text(name), re.DOTALL):
        ast.parse(code)


def test_the_picture_of_the_graph_shows_its_nodes_and_why_edges_are_taken() -> None:
    drawn = build_graph(ScriptedModel()).compile().get_graph()
    words = re.findall(r"<text[^>]*>([^<]*)</text>", (DOCS / "graph.svg").read_text())
    nodes = [name.strip("_") for name in drawn.nodes]
    assert sorted(words) == sorted([*nodes, *(str(edge.data) for edge in drawn.edges)])


def test_each_reason_and_each_metric_is_on_its_page() -> None:
    # what is over its limit is shortened or cut, and never the end of it
    reasons = {reason.value for reason in Rejection} - {"over_limit"}
    assert set(re.findall(r"^\| `(\w+)` \|", text("docs/compaction.md"), re.MULTILINE)) == reasons
    measured = re.findall(r'"xr_ai_conversation\.([\w.]+)"', inspect.getsource(metrics))
    assert (
        re.findall(r"^\| `([\w.]+)` \| (?:counter|histogram)", text("docs/operations.md"), re.MULTILINE)
        == measured
    )


def indented(message: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in message.splitlines())


async def test_the_requests_that_pages_show_are_what_a_model_is_sent() -> None:
    def summarise(messages: list[BaseMessage]) -> str:
        if "updates above" in messages[-1].text:
            return (
                "Line 2 stopped: its belt was worn. Bo has changed it. A spare belt was in drawer seven, beside the "
                "torque wrench."
            )
        return (
            "Ann calibrates the press in hall 3. She asked for the torque of the head bolts: 45 Nm. She will send the "
            "report to Bo by Friday 2026-06-19."
        )

    model = ScriptedModel(script=replies(summarise))
    clock = Clock(datetime(2026, 6, 17, 9, 0, tzinfo=timezone(timedelta(hours=2))))
    async with ContextManager(
        model,
        summary_context_topics=["camera"],
        incremental_context_topics=["notes"],
        dialogue_budget_bytes=800,
        topic_budget_bytes=600,
        clock=clock,
    ) as context:

        async def said(minutes: int, request: str, response: str) -> None:
            clock.move(minutes=minutes)
            await context.record_exchange("ann", request, response)

        async def published(minutes: int, topic: str, what: str) -> None:
            clock.move(minutes=minutes)
            await context.update("ann", topic, what)

        await published(
            2, "notes", "Line 2 stopped: the belt is worn, and slips whenever the press is at full load."
        )
        await said(
            3,
            "I am going to calibrate the press in hall 3. What torque do the head bolts take?",
            "45 Nm, in two passes.",
        )
        await published(
            1, "notes", "A spare belt of the right width is in drawer seven, beside the torque wrench."
        )
        await said(
            2, "Good. Remind me to send the report to Bo by Friday.", "I will: by Friday, the 19th of June."
        )
        await published(
            1, "notes", "The belt of line 2 has been changed by Bo, and the press was run empty for a while."
        )
        await context.settled("ann")
        await published(4, "camera", "Ann stands at the press. Its guard is open.")
        await published(1, "notes", "Line 2 runs again.")
        await said(1, "Is the guard closed?", "No, the camera shows it open.")
        await said(1, "And line 2?", "It runs again.")
        await context.settled("ann")
        clock.move(seconds=40)
        conversation = Conversation(model, context=context, instructions="You assist in a laboratory.")
        answer = await conversation.messages("ann", "May I start the press?")
    compaction = next(sent for sent in model.requests if "conversation above" in sent[-1].text)
    for page, messages in (("context", answer), ("compaction", compaction)):
        for message in messages:
            assert indented(message.text) in text(f"docs/{page}.md")
