# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a message says and how it ended is seen in the dress of every provider."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk
from strategies import many, texts

from xr_ai_conversation.nodes.message import finish_of, reply_of, text_of
from xr_ai_conversation.state.reply import Rejection, judge

SAID = "The lamp is red."

ENDED = {
    "OpenAI chat": {
        "finish_reason": "stop",
        "model_name": "gpt",
        "logprobs": None,
        "service_tier": "default",
    },
    "OpenAI responses": {
        "status": "completed",
        "incomplete_details": None,
        "id": "resp_1",
        "object": "response",
    },
    "Anthropic": {"id": "msg_1", "model": "claude", "stop_reason": "end_turn", "stop_sequence": None},
    "Google": {
        "finish_reason": "STOP",
        "prompt_feedback": {"block_reason": 0, "safety_ratings": []},
        "safety_ratings": [],
    },
    "Ollama": {"done": True, "done_reason": "stop", "eval_count": 7, "message": {"role": "assistant"}},
    "Bedrock": {
        "ResponseMetadata": {"HTTPStatusCode": 200},
        "stopReason": "end_turn",
        "metrics": {"latencyMs": [7]},
    },
    "Bedrock Titan": {"completionReason": "FINISH"},
    "Cohere": {
        "documents": None,
        "finish_reason": "COMPLETE",
        "generation_id": "1",
        "is_search_required": None,
    },
    "Mistral": {"token_usage": {}, "finish_reason": "stop"},
    "watsonx": {"finish_reason": "eos_token", "status": 200},
    "none": {},
}

CUT_OFF = {
    "OpenAI chat": {"finish_reason": "length", "logprobs": None},
    "OpenAI responses": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
    "OpenAI responses without details": {"status": "incomplete", "incomplete_details": None},
    "Anthropic": {"stop_reason": "max_tokens", "stop_sequence": None},
    "Anthropic window": {"stop_reason": "model_context_window_exceeded"},
    "Google": {"finish_reason": "MAX_TOKENS", "safety_ratings": []},
    "Google REST": {"finishReason": "MAX_TOKENS"},
    "Ollama": {"done": True, "done_reason": "length"},
    "Bedrock": {"stopReason": "max_tokens"},
    "Bedrock Titan": {"completionReason": "LENGTH"},
    "Cohere": {"finish_reason": "MAX_TOKENS"},
    "Mistral": {"finish_reason": "model_length"},
    "Hugging Face": {"finish_reason": "length"},
    "two reasons": {"finish_reason": "stop", "incomplete_details": {"reason": "max_output_tokens"}},
}

FILTERED = {
    "OpenAI chat": {"finish_reason": "content_filter"},
    "OpenAI responses": {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    "Anthropic": {"stop_reason": "refusal"},
    "Google": {"finish_reason": "SAFETY"},
    "Bedrock": {"stopReason": "guardrail_intervened"},
    "Bedrock Titan": {"completionReason": "CONTENT_FILTERED"},
    "Cohere": {"finish_reason": "ERROR_TOXIC"},
}

FAILED = {
    "OpenAI responses failed": {"status": "failed"},
    "OpenAI responses cancelled": {"status": "cancelled", "incomplete_details": None},
    "Cohere": {"finish_reason": "ERROR"},
    "Google": {"finish_reason": "MALFORMED_FUNCTION_CALL"},
    "DeepSeek": {"finish_reason": "insufficient_system_resource"},
}


def gate(message: AIMessage) -> Rejection | None:
    return judge(reply_of(message), limit=1_000, replaces=1_000).rejection


@pytest.mark.parametrize("provider", ENDED)
def test_a_message_that_ended_by_itself_is_taken(provider: str) -> None:
    message = AIMessage(SAID, response_metadata=ENDED[provider])
    assert gate(message) is None


@pytest.mark.parametrize("provider", CUT_OFF)
def test_a_message_that_was_cut_off_is_seen(provider: str) -> None:
    assert gate(AIMessage(SAID, response_metadata=CUT_OFF[provider])) is Rejection.CUT_OFF


@pytest.mark.parametrize("provider", FILTERED)
def test_a_message_that_was_filtered_is_seen(provider: str) -> None:
    assert gate(AIMessage(SAID, response_metadata=FILTERED[provider])) is Rejection.REFUSED


@pytest.mark.parametrize("provider", FAILED)
def test_a_message_whose_generation_failed_is_seen(provider: str) -> None:
    assert gate(AIMessage(SAID, response_metadata=FAILED[provider])) is Rejection.FAILED


@pytest.mark.parametrize(
    ("metadata", "finish"),
    [
        ({}, ""),
        ({"finish_reason": None}, ""),
        ({"finish_reason": ""}, ""),
        ({"finish_reason": "stop"}, "stop"),
        ({"stop_reason": "end_turn", "stop_sequence": "limit"}, "end_turn"),
        ({"status": "completed", "incomplete_details": None}, ""),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "max_output_tokens incomplete",
        ),
    ],
)
def test_the_finish_reason_is_in_its_providers_spelling(metadata: dict[str, Any], finish: str) -> None:
    assert finish_of(AIMessage(SAID, response_metadata=metadata)) == finish
    assert finish_of(AIMessageChunk(content=SAID, response_metadata=metadata)) == finish


@many
@given(texts())
def test_content_that_is_one_string_is_the_text(text: str) -> None:
    assert text_of(AIMessage(text)) == text
    assert reply_of(AIMessage(text)).text == text


@many
@given(st.lists(st.tuples(st.sampled_from(("string", "text", "other")), texts(2)), max_size=5))
def test_of_a_list_of_blocks_only_text_counts(parts: list[tuple[str, str]]) -> None:
    content: list[str | dict[Any, Any]] = []
    for kind, text in parts:
        if kind == "string":
            content.append(text)
        elif kind == "text":
            content.append({"type": "text", "text": text, "index": 0, "annotations": []})
        else:
            content.append({"type": "image_url", "image_url": {"url": text}, "text": text})
    assert text_of(AIMessage(content)) == "".join(text for kind, text in parts if kind != "other")


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "They asked.", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "reasoning", "reasoning": "They asked."},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "They asked."}]},
        {"type": "reasoning_content", "reasoning_content": {"text": "They asked."}},
    ],
)
def test_reasoning_blocks_are_not_said(block: dict[str, Any]) -> None:
    both = AIMessage([block, {"type": "text", "text": SAID}])
    assert text_of(both) == SAID
    assert gate(both) is None
    assert judge(reply_of(both), limit=100, replaces=100).text == SAID
    assert gate(AIMessage([block])) is Rejection.REASONING_ONLY
    assert gate(AIMessage([block, {"type": "text", "text": ""}])) is Rejection.REASONING_ONLY


@pytest.mark.parametrize("extra", [{"reasoning_content": "They asked."}, {"reasoning": {"summary": []}}])
def test_reasoning_beside_the_content_is_not_said(extra: dict[str, Any]) -> None:
    assert text_of(AIMessage(SAID, additional_kwargs=extra)) == SAID
    assert gate(AIMessage(SAID, additional_kwargs=extra)) is None
    assert gate(AIMessage("", additional_kwargs=extra)) is Rejection.REASONING_ONLY


@pytest.mark.parametrize(
    "message",
    [
        AIMessage([{"type": "refusal", "refusal": "I will not."}]),
        AIMessage([{"type": "text", "text": SAID}, {"type": "refusal", "refusal": "No more."}]),
        AIMessage("", additional_kwargs={"refusal": "I will not."}),
        AIMessage(SAID, additional_kwargs={"refusal": "I will not."}),
    ],
)
def test_a_refusal_is_seen_and_not_said(message: AIMessage) -> None:
    assert reply_of(message).refused
    assert "not" not in text_of(message)
    assert gate(message) is Rejection.REFUSED


@pytest.mark.parametrize("refusal", [None, ""])
def test_a_refusal_that_is_none_is_none(refusal: str | None) -> None:
    assert gate(AIMessage(SAID, additional_kwargs={"refusal": refusal})) is None


@pytest.mark.parametrize(
    "content",
    [[], [""], [{"type": "text", "text": ""}], [{"type": "text"}], [{"type": "text", "text": None}], [{}]],
)
def test_a_message_without_text_is_empty(content: list[str | dict[Any, Any]]) -> None:
    assert text_of(AIMessage(content)) == ""
    assert gate(AIMessage(content)) is Rejection.EMPTY


def test_the_chunks_of_a_stream_say_the_whole() -> None:
    contents: list[str | list[str | dict[Any, Any]]] = [
        [],
        "Hel",
        [{"type": "text", "text": "lo"}],
        [{"type": "thinking", "thinking": "x"}],
        "",
        [{"type": "text", "text": " 👋", "index": 0}],
    ]
    assert "".join(text_of(AIMessageChunk(content=content)) for content in contents) == "Hello 👋"
