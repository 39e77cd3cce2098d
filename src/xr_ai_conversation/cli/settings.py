# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What the person asked for on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import click

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from xr_ai_conversation.state.budgets import Budgets
    from xr_ai_conversation.state.context import ParticipantContext

Kind: TypeAlias = Literal["incremental", "summary"]
Topic: TypeAlias = tuple[str, Kind]

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
    database: Path
    topics: tuple[Topic, ...]
    """As given; those that are stored are known without being given."""
    dialogue_budget: int
    topic_budget: int
    instructions: str = ""

    def budgets(self, context: ParticipantContext | None = None) -> Budgets:
        """Return the budgets of the dialogue, of the topics given and of those that are stored.

        Args:
            context: What is stored of the participant. A topic that is given is of the kind given.

        Raises:
            click.UsageError: A topic or a budget cannot be.
        """
        from xr_ai_conversation.state.budgets import REQUEST_MARGIN, Budgets

        topics = (*self.topics, *_stored_topics(context, {name for name, _ in self.topics}))
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
            click.UsageError: No model is named, or OpenAI is meant and there is no key.
        """
        from xr_ai_conversation.models import openai_model

        try:
            return openai_model(self.model, base_url=self.base_url)
        except ValueError as error:
            message = str(error).replace("api_key and base_url", "OPENAI_API_KEY and --base-url")
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


def _of_kind(kind: Kind, topics: Iterable[Topic]) -> list[str]:
    return [name for name, its_kind in topics if its_kind == kind]


def _stored_topics(context: ParticipantContext | None, given: set[str]) -> list[Topic]:
    if context is None:
        return []
    incremental: list[Topic] = [(name, "incremental") for name in context["topics"] if name not in given]
    states: list[Topic] = [
        (name, "summary") for name in context["states"] if name not in given | set(context["topics"])
    ]
    return incremental + states


__all__ = ["Endpoint", "Kind", "Settings", "Topic", "check_participant", "topic_of"]
