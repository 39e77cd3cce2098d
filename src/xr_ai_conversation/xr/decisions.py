# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Decisions by any chat model with structured output."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig

from xr_ai_conversation.xr.questions import DecisionAnswer, DecisionQuestion, DecisionResult

_HIDDEN: RunnableConfig = {"tags": ["nostream"]}
"""Keeps the tokens of a decision out of the token stream of any graph around."""


class ChatDecisions:
    """Answers each question with one of its choices, all questions in one request.

    The choices are the enumerations of a JSON schema, so that a server which enforces it can answer nothing else.
    It does not own the model.

    Args:
        llm: Any chat model with structured output by JSON schema.
        timeout_s: Seconds that a decision may take where the caller does not say; None is without a limit.
    """

    def __init__(self, llm: BaseChatModel, *, timeout_s: float | None = None) -> None:
        self._llm = llm
        self._timeout_s = timeout_s

    async def decide(
        self,
        state: str | Mapping[str, object],
        questions: Mapping[str, DecisionQuestion],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the SDK's services are called with it
    ) -> DecisionResult:
        """Answer each question from what is the case.

        Args:
            state: What is the case: a text, or values that JSON can hold.
            questions: By a name of their own.
            timeout: Seconds; None is `timeout_s`.

        Returns:
            A choice for each question, without confidence, which a chat model does not know.

        Raises:
            TimeoutError: It took longer.
            ValueError: There is no question, a question has no choices, or the model's answer is not one choice for
                each question.
        """
        if not questions:
            raise ValueError("questions must not be empty")
        for name, question in questions.items():
            if not question.criteria:
                raise ValueError(f"question {name!r} has no choices")
        chooser = self._llm.with_structured_output(_schema(questions), method="json_schema", include_raw=True)
        async with asyncio.timeout(self._timeout_s if timeout is None else timeout):
            found = await chooser.ainvoke(_messages(state, questions), config=_HIDDEN)
        if not isinstance(found, Mapping):
            raise ValueError(f"the decision is {type(found).__name__}, not an object")  # noqa: TRY004 - bad data
        if (error := found.get("parsing_error")) is not None:
            raise ValueError("the decision is no JSON object that fits the questions") from error
        message = found.get("raw")
        return DecisionResult(_answers(found.get("parsed"), questions), _model(message), _usage(message))


def _schema(questions: Mapping[str, DecisionQuestion]) -> dict[str, Any]:
    return {
        "title": "decision",
        "description": "One choice for each question.",
        "type": "object",
        "properties": {
            name: {"type": "string", "enum": list(question.criteria)} for name, question in questions.items()
        },
        "required": list(questions),
        "additionalProperties": False,
    }


def _messages(
    state: str | Mapping[str, object], questions: Mapping[str, DecisionQuestion]
) -> list[BaseMessage]:
    # The situation is JSON, so no text in it can look like the end of it, and the task comes after it. It is kept
    # short for the sake of small models; the schema leaves nothing else to answer than one of the choices.
    parts = [f"Situation: {json.dumps(state, ensure_ascii=False)}"]
    for name, question in questions.items():
        choices = "\n".join(f"{choice}: {description}" for choice, description in question.criteria.items())
        label = f"Question {name}:\n" if len(questions) > 1 else ""
        parts.append(f"{label}{choices}\n\n{question.instructions}")
    return [HumanMessage("\n\n".join(parts))]


def _answers(parsed: object, questions: Mapping[str, DecisionQuestion]) -> dict[str, DecisionAnswer]:
    if not isinstance(parsed, Mapping) or set(parsed) != set(questions):
        raise ValueError(f"the decision does not answer exactly {sorted(questions)}")
    for name, question in questions.items():
        if parsed[name] not in list(question.criteria):  # a list, as what was answered may be anything
            raise ValueError(f"the decision on {name!r} is none of {sorted(question.criteria)}")
    return {name: DecisionAnswer(parsed[name]) for name in questions}


def _model(message: object) -> str:
    metadata = getattr(message, "response_metadata", None) or {}
    return str(metadata.get("model_name") or metadata.get("model") or "")


def _usage(message: object) -> dict[str, int]:
    usage = getattr(message, "usage_metadata", None) or {}
    return {name: count for name, count in usage.items() if isinstance(count, int)}


__all__ = ["ChatDecisions"]
