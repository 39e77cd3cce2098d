# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is measured, by the metrics API of OpenTelemetry: nothing, unless the application has set that up.

Instruments are those of the application's meter provider. Without `opentelemetry-api`, or without a provider, they do
nothing. They carry sizes, times and topics, never participants.

Answers are measured where a `Conversation` gives them, compactions where a `ContextManager` makes them. An agent's runs are no
answers here, and of the whole graph nothing is measured: its nodes know of no meter.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from xr_ai_conversation.state.operations import Compact
from xr_ai_conversation.state.text import size

try:
    from opentelemetry.metrics import get_meter
except ImportError:
    _METERS = None
else:
    _METERS = get_meter


@dataclass(slots=True)
class Compaction:
    """What comes of a compaction request, as far as it is known."""

    outcome: Literal["done", "failed", "skipped", "cancelled"] = "failed"
    """Skipped is one for which there was nothing to do any more."""
    reason: str = ""
    """Why it failed."""
    made: Compact | None = None
    """What it made."""


class Metrics:
    """The instruments of a context manager, for its compactions, and of its conversations, for their answers."""

    def __init__(self) -> None:
        # Any: the meter's type is of an optional package
        meter: Any = _METERS("xr_ai_conversation") if _METERS else _Off()
        self._answers = meter.create_counter(
            "xr_ai_conversation.answers", "{answer}", "Answers, by how they ended."
        )
        self._answer_duration = meter.create_histogram(
            "xr_ai_conversation.answer.duration", "s", "From the call of an answer to the end of its model."
        )
        self._first_piece = meter.create_histogram(
            "xr_ai_conversation.answer.first_piece", "s", "From the call of an answer to its first piece."
        )
        self._context_size = meter.create_histogram(
            "xr_ai_conversation.context.size", "By", "The context messages of recorded answers."
        )
        self._compactions = meter.create_counter(
            "xr_ai_conversation.compactions", "{request}", "Compaction requests, by how they ended."
        )
        self._compaction_duration = meter.create_histogram(
            "xr_ai_conversation.compaction.duration", "s", "From a compaction request to its commit."
        )
        self._compacted = meter.create_counter(
            "xr_ai_conversation.compaction.entries", "{entry}", "Entries that went into summaries."
        )
        self._summary_size = meter.create_histogram(
            "xr_ai_conversation.summary.size", "By", "The summaries that were made."
        )

    @contextmanager
    def answer(self) -> Iterator[Callable[[], None]]:
        """Measure an answer until this is left; what it yields is to be called at each piece."""
        began, spoken, outcome = perf_counter(), False, "failed"

        def piece() -> None:
            nonlocal spoken
            if not spoken:
                self._first_piece.record(perf_counter() - began)
            spoken = True

        try:
            yield piece
            outcome = "completed"
        except (CancelledError, GeneratorExit):
            outcome = "interrupted"
            raise
        finally:
            self._answers.add(1, {"outcome": outcome})
            self._answer_duration.record(perf_counter() - began, {"outcome": outcome})

    def context_size(self, message: str) -> None:
        """Measure the context message of an answer."""
        self._context_size.record(size(message))

    @contextmanager
    def compaction(self, topic: str | None) -> Iterator[Compaction]:
        """Measure a compaction request until this is left; what it yields is to be told what comes of it."""
        began, found = perf_counter(), Compaction()
        try:
            yield found
        except CancelledError:
            found.outcome = "cancelled"
            raise
        except Exception as error:
            found.reason = type(error).__name__
            raise
        finally:
            self._compacted_in(perf_counter() - began, topic, found)

    def _compacted_in(self, seconds: float, topic: str | None, found: Compaction) -> None:
        of: Mapping[str, str] = (
            {"section": "dialogue"} if topic is None else {"section": "topic", "topic": topic}
        )
        ended = {**of, "outcome": found.outcome, **({"reason": found.reason} if found.reason else {})}
        self._compactions.add(1, ended)
        self._compaction_duration.record(seconds, ended)
        if found.made:
            self._compacted.add(len(found.made["covered"]), of)
            self._summary_size.record(size(found.made["summary"]["text"]), of)


class _Off:
    """A meter, and all its instruments, that does nothing."""

    def create_counter(self, *_: str) -> _Off:
        return self

    def create_histogram(self, *_: str) -> _Off:
        return self

    def add(self, *_: object) -> None:
        pass

    def record(self, *_: object) -> None:
        pass


__all__ = ["Compaction", "Metrics"]
