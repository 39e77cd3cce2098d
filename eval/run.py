# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs cases through memories, and keeps each answer on a line of its own, so that a run can be taken up again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typing_extensions import TypedDict

from eval.cases import Case, Probe
from eval.memories import Memory, Models, Remembers
from eval.models import with_ideal_summaries
from xr_ai_conversation.nodes.message import text_of
from xr_ai_conversation.state.reasoning import without_reasoning
from xr_ai_conversation.state.text import size


class Answer(TypedDict):
    """One line of results: a question, the prompt that it was asked with, and the answer. It is graded later."""

    id: str
    """Of the run: model, budget, memory, case and probe."""
    memory: str
    case: str
    question: str
    current: list[str]
    stale: list[str]
    tags: dict[str, str | int]
    prompt: str
    """What stands between the system message and the question."""
    bytes: int
    """Of that, in UTF-8."""
    answer: str
    seconds: float
    compactions: int
    """Summaries made before it, and since what is asked for was said where the probe has a tag `turn`."""


_ANSWER = TypeAdapter(Answer)


class Results:
    """A file of answers, one JSON object a line, each written as soon as it is there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.answers: dict[str, Answer] = {}
        text = path.read_text("utf-8", errors="replace") if path.exists() else ""
        if text and not text.endswith("\n"):
            with path.open("a") as file:
                file.write("\n")
        for line in text.split("\n"):
            try:
                answer = _ANSWER.validate_json(line)
            except ValidationError:
                continue  # the last line of a run that was killed while it wrote
            self.answers[answer["id"]] = answer

    def add(self, answer: Answer) -> None:
        """Keep an answer."""
        self.answers[answer["id"]] = answer
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(answer, ensure_ascii=False) + "\n")


def progress() -> Progress:
    """Return a line that shows how far a run is, and how long the rest will take."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True))


async def run(
    cases: Sequence[Case],
    memories: Mapping[str, Remembers],
    models: Models,
    budget: int,
    path: Path,
    *,
    ideal_summaries: bool = False,
) -> list[Answer]:
    """Ask every memory every question that has no answer in the file yet, and return all answers.

    Args:
        cases: The sessions.
        memories: By name.
        models: Of the run.
        budget: UTF-8 bytes between system message and question.
        path: The file of results.
        ideal_summaries: Summaries lose nothing that a case says is to be kept.
    """
    results = Results(path)
    setting = f"{models.name}{'+ideal' if ideal_summaries else ''}/{budget}"
    wanted: list[str] = []
    with progress() as shown_progress:
        task = shown_progress.add_task("", total=len(cases) * len(memories))
        for case in cases:
            for name, remembers in memories.items():
                shown_progress.update(task, description=f"{name}: {case.name}")
                ids = [f"{setting}/{name}/{case.name}/{probe.name}" for probe in case.probes]
                wanted += ids
                if not all(each in results.answers for each in ids):
                    used = with_ideal_summaries(models, case.statements) if ideal_summaries else models
                    async with remembers(used, budget, case.topics) as memory:
                        await _session(case, name, memory, models, ids, results)
                shown_progress.advance(task)
    return [results.answers[each] for each in wanted]


async def _session(
    case: Case, name: str, memory: Memory, models: Models, ids: Sequence[str], results: Results
) -> None:
    made: list[int] = []  # summaries made, by turn
    left = iter(ids)
    for step in case.steps:
        if not isinstance(step, Probe):
            await memory.add(step)
            made.append(memory.compactions)
            continue
        messages = await memory.messages(step.question, step.asked)
        since = made[int(step.tags["turn"])] if "turn" in step.tags else 0
        begun = time.perf_counter()
        reply = await models.answers.ainvoke(messages) if step.answered else AIMessage("")
        prompt = shown(messages)
        results.add(
            Answer(
                id=next(left),
                memory=name,
                case=case.name,
                question=step.question,
                current=list(step.current),
                stale=list(step.stale),
                tags=step.tags,
                prompt=prompt,
                bytes=sum(size(text_of(message)) for message in messages[1:-1]),
                answer=without_reasoning(text_of(reply)),
                seconds=round(time.perf_counter() - begun, 3),
                compactions=memory.compactions - since,
            )
        )


def shown(messages: Iterable[BaseMessage]) -> str:
    """Return what a request shows between its system message and its question."""
    return "\n\n".join(text_of(message) for message in list(messages)[1:-1])


__all__ = ["Answer", "Results", "progress", "run", "shown"]
