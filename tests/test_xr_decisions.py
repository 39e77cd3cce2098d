# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Decisions by a chat model: what it is asked, and what is taken for an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fakes.chat import Piece, ScriptedModel, says, texts
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import Field

from xr_ai_conversation.models import EmbeddedModel
from xr_ai_conversation.xr import ChatDecisions, DecisionQuestion, DecisionService

ROUTE = DecisionQuestion("Choose.", {"notes": "Takes notes.", "talk": "Talks."})
MOOD = DecisionQuestion("How do they feel?", {"good": "Well.", "bad": "Not well."})


class StructuredModel(ScriptedModel):
    """Has structured output as chat models with JSON schema have it, and keeps the schemas."""

    schemas: list[Any] = Field(default_factory=list)
    methods: list[Any] = Field(default_factory=list)

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, method: str = "", **_: Any
    ) -> Runnable[Any, Any]:
        self.schemas.append(schema)
        self.methods.append(method)

        def parse(message: AIMessage) -> dict[str, Any]:
            try:
                return {"raw": message, "parsed": json.loads(str(message.content)), "parsing_error": None}
            except ValueError as error:
                return {"raw": message, "parsed": None, "parsing_error": error}

        assert include_raw
        return self | RunnableLambda(parse)


def model_of(*pieces: Piece) -> StructuredModel:
    return StructuredModel(script=says(*pieces))


def test_it_is_a_decision_service() -> None:
    assert isinstance(ChatDecisions(model_of()), DecisionService)


async def test_the_choices_are_the_enumeration_of_a_schema_and_the_task_comes_after_the_situation() -> None:
    model = model_of('{"route": "talk"}')
    result = await ChatDecisions(model).decide({"query": "Hi\n\nnotes: yes"}, {"route": ROUTE})
    assert result.answers["route"].choice == "talk"
    assert result.answers["route"].confidence is None
    (schema,) = model.schemas
    assert schema["properties"] == {"route": {"type": "string", "enum": ["notes", "talk"]}}
    assert (schema["required"], schema["additionalProperties"]) == (["route"], False)
    assert model.methods == ["json_schema"]
    assert texts(model.requests[0]) == [
        'Situation: {"query": "Hi\\n\\nnotes: yes"}\n\nnotes: Takes notes.\ntalk: Talks.\n\nChoose.'
    ]


async def test_several_questions_are_one_request() -> None:
    model = model_of('{"route": "notes", "mood": "good"}')
    result = await ChatDecisions(model).decide("They sing.", {"route": ROUTE, "mood": MOOD})
    assert {name: answer.choice for name, answer in result.answers.items()} == {
        "route": "notes",
        "mood": "good",
    }
    assert len(model.requests) == 1
    assert "Question mood:\ngood: Well.\nbad: Not well.\n\nHow do they feel?" in texts(model.requests[0])[0]


async def test_the_model_and_its_tokens_are_told_where_they_are_known() -> None:
    usage: Any = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    chunk = AIMessageChunk(
        content='{"route": "talk"}', response_metadata={"model_name": "m"}, usage_metadata=usage
    )
    result = await ChatDecisions(model_of(chunk)).decide("x", {"route": ROUTE})
    assert result.model == "m"
    plain = await ChatDecisions(model_of('{"route": "talk"}')).decide("x", {"route": ROUTE})
    assert plain.model == ""


@pytest.mark.parametrize(
    "answer",
    [
        "talk",
        "",
        "{}",
        "[]",
        '"talk"',
        "null",
        '{"route": "nowhere"}',
        '{"route": null}',
        '{"route": ["talk"]}',
        '{"route": {"a": 1}}',
        '{"mood": "good"}',
        '{"route": "talk", "mood": "good"}',
        '{"route": "ta',
    ],
)
async def test_a_malformed_or_partial_answer_is_a_value_error(answer: str) -> None:
    with pytest.raises(ValueError, match="decision"):
        await ChatDecisions(model_of(answer)).decide("x", {"route": ROUTE})


async def test_questions_without_choices_and_no_questions_are_refused() -> None:
    model = model_of("{}")
    for questions in ({}, {"route": DecisionQuestion("Choose.", {})}):
        with pytest.raises(ValueError, match=r"empty|no choices"):
            await ChatDecisions(model).decide("x", questions)
    assert model.requests == []


async def test_an_error_of_the_model_reaches_the_caller() -> None:
    with pytest.raises(OSError, match="refused"):
        await ChatDecisions(model_of(OSError("refused"))).decide("x", {"route": ROUTE})


@pytest.mark.parametrize("limits", [{"timeout": 0.0}, {}])
async def test_a_decision_that_takes_too_long_is_given_up(limits: dict[str, float]) -> None:
    async def hang(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        await asyncio.Event().wait()
        yield ""

    decisions = ChatDecisions(StructuredModel(script=hang), timeout_s=None if limits else 0.0)
    with pytest.raises(TimeoutError):
        await decisions.decide("x", {"route": ROUTE}, **limits)


@pytest.mark.model
async def test_the_embedded_model_answers_with_one_of_the_choices_and_mostly_the_right_one() -> None:
    question = DecisionQuestion(
        "Choose the route for the query. If two fit equally well, choose the one listed first.",
        {
            "notes": "Writes down what the participant wants to be noted.",
            "conversation": "Answers general questions and chats.",
        },
    )
    queries = {
        "What is the capital of France?": "conversation",
        "Why is the sky blue?": "conversation",
        "How are you?": "conversation",
        "Please write down that the pump is broken": "notes",
        "Note that the meeting is at nine.": "notes",
        "write this down: valve 3 leaks": "notes",
    }
    with EmbeddedModel() as embedded:
        decisions = ChatDecisions(embedded.answers, timeout_s=60)
        chosen = {
            query: (await decisions.decide({"query": query}, {"route": question})).answers["route"].choice
            for query in queries
        }
    assert set(chosen.values()) == {"notes", "conversation"}
    assert sum(chosen[query] == right for query, right in queries.items()) >= 5
