# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""How many bytes of rendered text each section may take, and what is wrong with a budget that cannot hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xr_ai_conversation.state.render import smallest_budget
from xr_ai_conversation.state.text import size, visible

LONGEST_TOPIC = 128
"""Bytes of the longest topic name."""

REQUEST_MARGIN = 256
"""Bytes that a compaction request must have beyond half of the largest section budget."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The sections of a context, each with its budget; all figures are UTF-8 bytes of rendered text."""

    dialogue: int
    """Bounds completed dialogue."""
    incremental: Mapping[str, int]
    """Bounds each incremental topic; its order is the order of the summaries in a prompt."""
    summary: Mapping[str, int]
    """Bounds the state of each summary topic."""
    compaction_input: int
    """Bounds the previous summary and the entries of one compaction request."""

    @classmethod
    def of(
        cls,
        *,
        summary_topics: Iterable[str] = (),
        incremental_topics: Iterable[str] = (),
        dialogue_bytes: int = 8_000,
        topic_bytes: int | Mapping[str, int] = 4_000,
        compaction_input_bytes: int = 12_000,
    ) -> Budgets:
        """Check what the application configured.

        Args:
            summary_topics: Names of the topics whose updates replace their state.
            incremental_topics: Names of the topics whose updates append.
            dialogue_bytes: Budget of the dialogue.
            topic_bytes: One budget for every topic, or a mapping with a value for each configured topic.
            compaction_input_bytes: Budget of one compaction request.

        Raises:
            TypeError: A topic is no string, topics are given as one string, or a budget is no whole number.
            ValueError: A topic is blank, too long, of several lines or configured twice; a budget is missing,
                is for no configured topic, or cannot hold what must go into it.
        """
        replaced = _topics("summary_context_topics", summary_topics)
        appended = _topics("incremental_context_topics", incremental_topics)
        for topic in (names := (*replaced, *appended)):
            if names.count(topic) > 1:
                raise ValueError(
                    f"topic {topic!r} is configured twice in summary_context_topics and "
                    "incremental_context_topics, it must be configured once"
                )
        if isinstance(topic_bytes, Mapping):
            if missing := [topic for topic in names if topic not in topic_bytes]:
                raise ValueError(f"topic_budget_bytes must have a value for each topic, none for {missing}")
            if unknown := [topic for topic in topic_bytes if topic not in names]:
                raise ValueError(f"topic_budget_bytes has values for topics not configured: {unknown}")
            of_topic = dict(topic_bytes)
        else:
            of_topic = dict.fromkeys(names, topic_bytes)
            _check("topic_budget_bytes", topic_bytes, 1)
        _check("dialogue_budget_bytes", dialogue_bytes, smallest_budget(None))
        for topic, budget in of_topic.items():
            _check(f"topic_budget_bytes of {topic!r}", budget, smallest_budget(topic))
        least = (max(dialogue_bytes, *of_topic.values(), 0) + 1) // 2 + REQUEST_MARGIN
        _check("compaction_input_budget_bytes", compaction_input_bytes, least)
        return cls(
            dialogue=dialogue_bytes,
            incremental={topic: of_topic[topic] for topic in appended},
            summary={topic: of_topic[topic] for topic in replaced},
            compaction_input=compaction_input_bytes,
        )

    def of_section(self, topic: str | None) -> int:
        """Return the budget of a topic, or of the dialogue for None."""
        if topic is None:
            return self.dialogue
        return (self.incremental if topic in self.incremental else self.summary)[topic]

    def sections(self) -> tuple[str | None, ...]:
        """Return the sections that compact: None for the dialogue, then each incremental topic."""
        return (None, *self.incremental)


def _topics(argument: str, topics: Iterable[str]) -> tuple[str, ...]:
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise TypeError(f"{argument} must be a collection of topic names, got {topics!r}")
    names = tuple(topics)
    for topic in names:
        if not isinstance(topic, str):
            raise TypeError(f"{argument} must hold strings, got {topic!r}")
        if not visible(topic) or topic.splitlines() != [topic] or not topic.isprintable():
            raise ValueError(f"{argument} must hold printable names of one line, got {topic!r}")
        if size(topic) > LONGEST_TOPIC:
            raise ValueError(
                f"{argument} must hold names of at most {LONGEST_TOPIC} bytes, got {size(topic)}"
            )
    return names


def _check(argument: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{argument} must be a whole number of bytes, got {value!r}")
    if value < least:
        raise ValueError(f"{argument} must be at least {least} bytes, got {value}")


__all__ = ["LONGEST_TOPIC", "REQUEST_MARGIN", "Budgets"]
