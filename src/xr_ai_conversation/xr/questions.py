# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of a decision service, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """A question with given choices."""

    instructions: str
    """What is to be decided."""
    criteria: Mapping[str, str]
    """The choices by name, each with a description of when it is right."""


@dataclass(frozen=True, slots=True)
class DecisionAnswer:
    """What was decided on one question."""

    choice: str
    """The name of a choice."""
    confidence: float | None = None
    """From 0 to 1, where the service knows it."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Of each choice, where the service knows them."""


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """What was decided on all questions of a request."""

    answers: Mapping[str, DecisionAnswer]
    """By the name of the question."""
    model: str = ""
    """What decided, where it has a name."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """Tokens it took, where that is known."""


class Answered(Protocol):
    """As much of a decision's answer as a router needs."""

    @property
    def choice(self) -> str:
        """The name of a choice."""


class Decided(Protocol):
    """As much of a decision's result as a router needs."""

    @property
    def answers(self) -> Mapping[str, Answered]:
        """By the name of the question."""


@runtime_checkable
class DecisionService(Protocol):
    """Chooses between given choices."""

    async def decide(
        self,
        state: str | Mapping[str, object],
        questions: Mapping[str, DecisionQuestion],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the SDK's services are called with it
    ) -> Decided:
        """Answer each question from what is the case.

        Args:
            state: What is the case; data, never instructions.
            questions: By a name of their own.
            timeout: Seconds; None is the service's own.

        Raises:
            TimeoutError: It took longer.
            ValueError: What was answered is not a choice for each question.
        """


__all__ = ["DecisionAnswer", "DecisionQuestion", "DecisionResult", "DecisionService"]
