# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What the person asked for on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from xr_ai_conversation.cli.database import Place
    from xr_ai_conversation.state.budgets import Budgets
    from xr_ai_conversation.state.context import ParticipantContext

Kind: TypeAlias = Literal["incremental", "summary"]
Topic: TypeAlias = tuple[str, Kind]

_DEFAULT_TOPIC: Topic = ("notes", "incremental")
_KINDS: dict[str, Kind] = {"incremental": "incremental", "summary": "summary"}
_COMPACTION_INPUT_BYTES = 12_000
_OPTIONS = {
    "dialogue_budget_bytes": "--dialogue-budget",
    "topic_budget_bytes": "--topic-budget",
    "summary_context_topics": "--topic",
    "incremental_context_topics": "--topic",
}
"""What the library's arguments are called on the command line."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options that say whose context is meant, and how it is kept."""

    participant: str
    database: Place
    topics: tuple[Topic, ...]
    """As given; those that are stored are known without being given."""
    dialogue_budget: int
    topic_budget: int
    instructions: str = ""

    def budgets(self, context: ParticipantContext | None = None) -> Budgets:
        """Return the budgets of the dialogue, of the topics given and of those that are stored.

        If there are none of either, there is the topic "notes".

        Args:
            context: What is stored of the participant.

        Raises:
            click.UsageError: A topic or a budget cannot be, or a topic is stored as one of the other kind.
        """
        from xr_ai_conversation.state.budgets import REQUEST_MARGIN, Budgets

        topics = _with_stored(self.topics, context) or (_DEFAULT_TOPIC,)
        least_input = max(self.dialogue_budget, self.topic_budget) // 2 + 1 + REQUEST_MARGIN
        try:
            return Budgets.of(
                summary_topics=_of_kind("summary", topics),
                incremental_topics=_of_kind("incremental", topics),
                dialogue_bytes=self.dialogue_budget,
                topic_bytes=self.topic_budget,
                compaction_input_bytes=max(_COMPACTION_INPUT_BYTES, least_input),
            )
        except ValueError as error:
            message = str(error)
            for argument, option in _OPTIONS.items():
                message = message.replace(argument, option)
            raise click.UsageError(f"{message}.") from error

    def check(self) -> None:
        """Raise click.UsageError if the participant, a topic or a budget cannot be."""
        check_participant(self.participant)
        self.budgets()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server that is used instead of the embedded model."""

    model: str | None
    """None is what the environment says."""
    base_url: str | None
    """None is what the environment says, and OpenAI if it says nothing."""

    def chat_model(self) -> BaseChatModel:
        """Return the chat model.

        Raises:
            click.UsageError: No model is named, OpenAI is meant and there is no key, or the URL has no scheme.
        """
        from xr_ai_conversation.models import openai_model

        try:
            return openai_model(self.model, base_url=self.base_url)
        except ValueError as error:
            message = str(error).replace("api_key", "OPENAI_API_KEY").replace("base_url", "--base-url")
            raise click.UsageError(f"--{message}" if message.startswith("model") else message) from error


def check_participant(name: str) -> None:
    """Raise click.UsageError if a participant cannot be called so."""
    from xr_ai_conversation.graph.participants import check_participant_id

    try:
        check_participant_id(name)
    except ValueError as error:
        raise click.UsageError(f"{str(error).replace('participant_id', '--participant')}.") from error


def topic_of(text: str) -> Topic:
    """Return the topic that `NAME`, `NAME:incremental` or `NAME:summary` stands for.

    Raises:
        click.BadParameter: It is of another kind; a name with a colon in it needs its kind.
    """
    name, colon, kind = text.rpartition(":")
    if not colon:
        return text, "incremental"
    if kind in _KINDS:
        return name, _KINDS[kind]
    raise click.BadParameter(
        f"what follows the last colon of a topic is 'summary' or 'incremental', not {kind!r}."
    )


def spelled(topic: Topic) -> str:
    """Return how a topic is written on the command line, as `topic_of` reads it."""
    name, kind = topic
    return f"{name}:{kind}" if kind == "summary" or ":" in name else name


def _of_kind(kind: Kind, topics: Iterable[Topic]) -> list[str]:
    return [name for name, its_kind in topics if its_kind == kind]


def _with_stored(given: tuple[Topic, ...], context: ParticipantContext | None) -> tuple[Topic, ...]:
    if context is None:
        return given
    stored: dict[str, Kind] = dict.fromkeys(context["states"], "summary")
    stored |= dict.fromkeys(context["topics"], "incremental")
    for name, kind in given:
        # what is stored would not be seen under the other kind
        if (its_kind := stored.pop(name, kind)) != kind:
            raise click.UsageError(
                f"--topic {spelled((name, kind))} does not fit what is stored, where {name!r} is {its_kind}: "
                f"give --topic {spelled((name, its_kind))}, or leave it out."
            )
    return *given, *stored.items()


__all__ = ["Endpoint", "Kind", "Settings", "Topic", "check_participant", "spelled", "topic_of"]
