# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A session: one participant, a conversation and its context, and the lines that the person writes."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from xr_ai_conversation.cli.database import Place, opened, stored
from xr_ai_conversation.cli.errors import Failure
from xr_ai_conversation.cli.settings import Settings, spelled

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from xr_ai_conversation import ContextManager, Conversation
    from xr_ai_conversation.state.compaction import CompactionPrompts

_HELP = """\
/note TOPIC TEXT  publish an update on a topic
/note TEXT        the same on the only topic whose notes add up
/help             show this
/quit             leave, as Ctrl-D does
Ctrl-C            stop an answer, of which nothing is remembered then

topics: """

Action: TypeAlias = Literal["nothing", "ask", "note", "help", "quit"]

_ACTIONS: dict[str, Action] = {"note": "note", "help": "help", "quit": "quit"}
_COMMAND = re.compile(r"/(\w*)(?:\s+(.*))?", re.DOTALL)


def action_of(line: str) -> tuple[Action, str]:
    """Return what a line asks for, and the rest of the line.

    Raises:
        Failure: It looks like a command and is none.
    """
    line = line.strip()
    command = _COMMAND.fullmatch(line)
    if command is None:
        return ("ask", line) if line else ("nothing", "")
    name, rest = command[1], command[2] or ""
    if name in _ACTIONS:
        return _ACTIONS[name], rest
    raise Failure(f"There is no command /{name}: there are /note, /help and /quit.")


@dataclass(frozen=True, slots=True)
class Session:
    """A participant's conversation, for as long as a `chat` command runs."""

    participant: str
    database: Place
    conversation: Conversation
    context: ContextManager

    def answer(self, request: str) -> AsyncGenerator[str, None]:
        """Return the answer to a request, piece by piece; errors are those of `Conversation.stream`."""
        return self.conversation.stream(self.participant, request)

    @property
    def topics(self) -> str:
        """The topics that notes are published on, as they are written on the command line."""
        budgets = self.context.budgets
        incremental = [spelled((name, "incremental")) for name in budgets.incremental]
        return ", ".join(incremental + [spelled((name, "summary")) for name in budgets.summary])

    @property
    def help(self) -> str:
        """What can be typed."""
        return _HELP + self.topics

    async def note(self, text: str) -> str:
        """Publish an update, given as a topic and its text.

        A text that begins with no topic goes to the incremental topic, if there is exactly one.

        Returns:
            The topic.

        Raises:
            Failure: There is no text, or it is not clear on which topic it is.
        """
        from xr_ai_conversation.state.text import visible

        if not visible(text):
            raise Failure("A note is written /note TEXT or /note TOPIC TEXT.")
        budgets = self.context.budgets
        topics = (*budgets.incremental, *budgets.summary)
        # a topic's name may hold spaces, and may begin with another one's
        for topic in sorted(topics, key=len, reverse=True):
            if text == topic or text.startswith(f"{topic} "):
                update = text.removeprefix(topic).strip()
                break
        else:
            if len(budgets.incremental) != 1:
                known = ", ".join(map(repr, topics))
                raise Failure(
                    f"There is no topic {text.split()[0]!r}: begin the note with one of {known}, "
                    "or start with --topic to add another."
                )
            (topic,), update = budgets.incremental, text
        if not visible(update):
            raise Failure(f"The note on {topic!r} has no text.")
        await self.context.update(self.participant, topic, update)
        return topic


@asynccontextmanager
async def session(settings: Settings, model: BaseChatModel | None) -> AsyncIterator[Session]:
    """Open the database, load the model and keep a session; compaction under way at its end is cancelled.

    Args:
        settings: Whose context it is, and how it is kept.
        model: Answers and summarises; None is the embedded model, which needs no network.
    """
    from xr_ai_conversation import ContextManager, Conversation

    async with opened(settings.database) as saver:
        budgets = settings.budgets(await stored(saver, settings.participant))
        async with (
            _models(model) as (answers, summaries, prompts),
            ContextManager(
                summaries,
                prompts=prompts,
                summary_context_topics=budgets.summary,
                incremental_context_topics=budgets.incremental,
                dialogue_budget_bytes=budgets.dialogue,
                topic_budget_bytes={**budgets.incremental, **budgets.summary},
                compaction_input_budget_bytes=budgets.compaction_input,
                checkpointer=saver,
            ) as context,
        ):
            conversation = Conversation(answers, context=context, instructions=settings.instructions)
            yield Session(settings.participant, settings.database, conversation, context)


@asynccontextmanager
async def _models(
    model: BaseChatModel | None,
) -> AsyncIterator[tuple[BaseChatModel, BaseChatModel, CompactionPrompts]]:
    """Yield what answers, what summarises, and what that is told to keep."""
    from xr_ai_conversation.models import EmbeddedModel
    from xr_ai_conversation.state.compaction import CompactionPrompts

    if model:
        yield model, model, CompactionPrompts()
    else:
        async with EmbeddedModel() as embedded:
            yield embedded.answers, embedded.summaries, embedded.prompts


__all__ = ["Action", "Session", "action_of", "session"]
