# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Long real dialogues with questions, read from a path: nothing of them comes with the project.

The file is a list of conversations: `id`, `speakers`, `sessions` of a `time` and `turns` (`id`, `speaker`, `text`), and
`questions` of a `question`, its `answer`, the ids of its `evidence`, and a `category` (5: the answer is wrong, and the
right thing to say is that it was not said).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, Field, TypeAdapter

from eval.cases import Case, Probe, Said, Step
from eval.grading import abstains, f1, folded, words
from eval.report import Row, grouped, mean, share
from eval.run import Answer

ADVERSARIAL = 5
"""The category of questions whose answer was never said."""

EVIDENCE = "evidence, word for word"
"""Every turn that holds the answer stands in the prompt."""
WORDS = "all words of the answer"
"""Every word of the answer stands in the prompt, in whatever words around."""

LATER = (0, 1, 2, 4, 8, 16)
"""Sessions after that of the evidence, at whose ends there is a look at the prompt."""


class _Turn(BaseModel):
    id: str
    speaker: str
    text: str


class Session(BaseModel):
    """One sitting of a conversation."""

    time: str
    turns: list[_Turn] = Field(min_length=1)


class _Question(BaseModel):
    question: str
    answer: str | int | None = None
    evidence: list[str] = []
    category: int


class Dialogue(BaseModel):
    """One conversation of the file."""

    id: str
    speakers: list[str]
    sessions: list[Session] = Field(min_length=1)
    questions: list[_Question]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a question is graded by."""

    answer: str
    evidence: tuple[str, ...]
    """The texts of the turns that hold the answer."""
    category: int


def read(path: Path) -> list[Dialogue]:
    """Read the dialogues of a file.

    Raises:
        ValueError: It has another shape, no questions, or two dialogues of one id.
    """
    dialogues = TypeAdapter(list[Dialogue]).validate_json(path.read_bytes())
    if not any(each.questions for each in dialogues):
        raise ValueError("there is no question in it")
    if len({each.id for each in dialogues}) < len(dialogues):
        raise ValueError("two dialogues have the same id")
    return dialogues


def began(text: str) -> datetime:
    """Return the time of a session, as `1:56 pm on 8 May, 2023`; the data names no zone."""
    return datetime.strptime(text.strip().upper(), "%I:%M %p ON %d %B, %Y").replace(tzinfo=UTC)


def exchanges(session: Session) -> Iterator[Said]:
    """Yield the turns of a session in pairs: what one says is the request, what the next says the response."""
    time = began(session.time)
    for number in range(0, len(session.turns), 2):
        first, *second = session.turns[number : number + 2]
        request = f"{first.speaker}: {first.text}"
        yield Said(time, request, f"{second[0].speaker}: {second[0].text}" if second else "(no answer)")
        time += timedelta(seconds=30)


def case_of(dialogue: Dialogue, questions: int | None) -> tuple[Case, dict[str, Expected]]:
    """Return a dialogue as a session that ends in its questions, and what they are graded by, by name.

    At the ends of the session that completes a question's evidence, and of some that follow, there is a look at the
    prompt, with a tag `sessions since`.

    Args:
        dialogue: One conversation.
        questions: How many of its questions, every so many-th from the first on; None is all.

    Raises:
        ValueError: The time of a session cannot be read.
    """
    texts = {turn.id: turn.text for session in dialogue.sessions for turn in session.turns}
    session_of = {turn.id: at for at, session in enumerate(dialogue.sessions) for turn in session.turns}
    every = max(1, len(dialogue.questions) // questions) if questions else 1
    chosen = list(enumerate(dialogue.questions))[::every][:questions]
    expected: dict[str, Expected] = {}
    complete: dict[int, int] = {}
    for number, each in chosen:
        evidence = [name for name in each.evidence if name in texts]
        expected[f"{number}"] = Expected(
            "" if each.answer is None else str(each.answer),
            tuple(texts[name] for name in evidence),
            each.category,
        )
        if evidence and each.category != ADVERSARIAL:
            complete[number] = max(session_of[name] for name in evidence)
    steps: list[Step] = []
    asked = datetime.min.replace(tzinfo=UTC)
    for at, session in enumerate(dialogue.sessions):
        said = list(exchanges(session))
        steps += said
        asked = said[-1].time + timedelta(hours=1)
        for number, each in chosen:
            if number in complete and (since := at - complete[number]) in LATER:
                tags: dict[str, str | int] = {"question": number, "sessions since": since}
                name = f"{number} after {since}"
                steps.append(Probe(name, each.question, asked, (), (), tags, answered=False))
    for number, each in chosen:
        steps.append(Probe(f"{number}", each.question, asked, (), (), {"question": number}))
    return Case(dialogue.id, tuple(steps)), expected


def evidence_stands(prompt: str, evidence: tuple[str, ...]) -> bool:
    """Tell whether every turn that holds the answer stands in a prompt, word for word."""
    shown = _plain(prompt)
    return bool(evidence) and all(_plain(text) in shown for text in evidence)


def answer_stands(prompt: str, answer: str) -> bool:
    """Tell whether a prompt has every word of the answer, in whatever words around: the most that a reader could use."""
    shown = set(words(prompt))
    return bool(words(answer)) and all(word in shown for word in words(answer))


def asked_at_the_end(
    answers: Sequence[Answer], expected: Mapping[str, Mapping[str, Expected]], budget: int
) -> list[Row]:
    """Return, of each memory, how much is left at the end of the dialogues, and how good the answers are.

    Args:
        answers: To the questions of some dialogues.
        expected: What they are graded by, by case and question.
        budget: The bytes of prompt that they were given.
    """
    rows: list[Row] = []
    at_end = [answer for answer in answers if "sessions since" not in answer["tags"]]
    for memory, found in grouped(at_end, lambda answer: answer["memory"]).items():
        pairs = [(each, _expected(each, expected)) for each in found]
        real = [(each, graded) for each, graded in pairs if graded.category != ADVERSARIAL]
        never = [each for each, graded in pairs if graded.category == ADVERSARIAL]
        rows.append(
            {
                "budget": budget,
                "memory": memory,
                "n": len(real),
                **_stands([each for each, _ in real], expected),
                "F1": mean([f1(each["answer"], graded.answer) for each, graded in real]),
                "n, never said": len(never),
                "says unknown where it was never said": share(abstains(each["answer"]) for each in never),
                "bytes of prompt": mean([each["bytes"] for each in found]),
            }
        )
    return rows


def retained(
    answers: Sequence[Answer], expected: Mapping[str, Mapping[str, Expected]], budget: int
) -> list[Row]:
    """Return, of each memory, how much of the evidence stands in the prompts, by the sessions since it was complete.

    Args:
        answers: Of some dialogues; only the looks count.
        expected: What they are graded by, by case and question.
        budget: The bytes of prompt that they were given.
    """
    looks = [answer for answer in answers if "sessions since" in answer["tags"]]
    groups = grouped(looks, lambda answer: (int(answer["tags"]["sessions since"]), answer["memory"]))
    return [
        {
            "sessions since": since,
            "budget": budget,
            "memory": memory,
            "n": len(found),
            **_stands(found, expected),
            "bytes of prompt": mean([each["bytes"] for each in found]),
        }
        for (since, memory), found in sorted(groups.items(), key=lambda group: group[0][0])
    ]


def _expected(answer: Answer, expected: Mapping[str, Mapping[str, Expected]]) -> Expected:
    return expected[answer["case"]][str(answer["tags"]["question"])]


def _stands(answers: Sequence[Answer], expected: Mapping[str, Mapping[str, Expected]]) -> Row:
    pairs = [(each["prompt"], _expected(each, expected)) for each in answers]
    return {
        EVIDENCE: share(evidence_stands(prompt, graded.evidence) for prompt, graded in pairs),
        WORDS: share(answer_stands(prompt, graded.answer) for prompt, graded in pairs),
    }


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"^(?:user|assistant)> ", "", folded(text), flags=re.MULTILINE))


__all__ = [
    "ADVERSARIAL",
    "EVIDENCE",
    "LATER",
    "WORDS",
    "Dialogue",
    "Expected",
    "Session",
    "answer_stands",
    "asked_at_the_end",
    "case_of",
    "evidence_stands",
    "exchanges",
    "read",
    "retained",
]
