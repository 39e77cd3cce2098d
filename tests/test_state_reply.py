# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""One gate: a reply is taken as a summary, or the reason why not is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import broken, many, texts

from xr_ai_conversation.state.reply import Rejection, Reply, Verdict, cut_off, judge
from xr_ai_conversation.state.text import size, visible

SUMMARY = "They spoke of the lamp in room 4, which is red."


def gate(text: str, *, limit: int = 1_000, replaces: int = 1_000, finish: str = "") -> Rejection | None:
    return judge(Reply(text, finish=finish), limit=limit, replaces=replaces).rejection


@pytest.mark.parametrize(
    "finish",
    [
        "length",
        "LENGTH",
        "max_tokens",
        "MAX_TOKENS",
        "maxTokens",
        "FinishReason.MAX_TOKENS",
        "max_output_tokens",
        "max_output_tokens incomplete",
        "incomplete",
        "model_length",
        "model_context_window_exceeded",
        "context_length_exceeded",
        "token_limit",
        "time_limit",
        "limit",
        "ERROR_LIMIT",
        "truncated",
        "lengthlength",  # chunks whose metadata were added up
        "not_finished",
        "pause_turn",
    ],
)
def test_a_reply_that_its_provider_cut_off_is_not_taken(finish: str) -> None:
    assert gate(SUMMARY, finish=finish) is Rejection.CUT_OFF
    assert gate("", finish=finish) is Rejection.CUT_OFF
    assert gate("x" * 2_000, finish=finish) is Rejection.CUT_OFF
    assert cut_off(finish)


@pytest.mark.parametrize(
    "finish",
    [
        "content_filter",
        "content_filtered",
        "CONTENT_FILTERED",
        "content_filter incomplete",
        "SAFETY",
        "IMAGE_SAFETY",
        "refusal",
        "RECITATION",
        "BLOCKLIST",
        "blocked",
        "PROHIBITED_CONTENT",
        "SPII",
        "LANGUAGE",
        "ERROR_TOXIC",
        "guardrail_intervened",
        "sensitive",
        "moderation",
    ],
)
def test_a_reply_that_its_provider_filtered_is_refused(finish: str) -> None:
    assert gate(SUMMARY, finish=finish) is Rejection.REFUSED
    assert not cut_off(finish.replace(" incomplete", ""))


@pytest.mark.parametrize(
    "finish",
    [
        "error",
        "ERROR",
        "network_error",
        "failed",
        "abort",
        "aborted",
        "cancelled",
        "USER_CANCEL",
        "MALFORMED_FUNCTION_CALL",
        "malformed_model_output",
        "UNEXPECTED_TOOL_CALL",
        "insufficient_system_resource",
        "timeout",
        "OTHER",
    ],
)
def test_a_reply_whose_generation_failed_is_not_taken(finish: str) -> None:
    assert gate(SUMMARY, finish=finish) is Rejection.FAILED
    assert not cut_off(finish)


@pytest.mark.parametrize(
    "finish",
    [
        "",
        "stop",
        "STOP",
        "stopstop",
        "FinishReason.STOP",
        "end_turn",
        "eos",
        "eos_token",
        "endoftext",
        "COMPLETE",
        "complete",
        "completed",
        "FINISH",
        "finished",
        "done",
        "stop_sequence",
        "tool_calls",
        "tool_use",
        "function_call",
        "FINISH_REASON_UNSPECIFIED",
        "null",
        "unknown",
    ],
)
def test_a_reply_that_ended_by_itself_is_taken(finish: str) -> None:
    verdict = judge(Reply(SUMMARY, finish=finish), limit=100, replaces=100)
    assert verdict == Verdict(SUMMARY, None)
    assert not cut_off(finish)


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n\n\t", "\u200b", "\ufeff\u2060", "\u00ad \u202e", "\u3164\u115f", "\u2800" * 3, "\x00"],
)
def test_a_reply_of_which_nothing_can_be_seen_is_empty(text: str) -> None:
    assert gate(text) is Rejection.EMPTY
    assert gate(text, finish="stop") is Rejection.EMPTY


@pytest.mark.parametrize(
    "text",
    [
        "<think>They spoke of a lamp.</think>",
        "<think>They spoke of a lamp.</think>\n\u200b\n",
        "<think>They spoke of a lamp.",
        "They spoke of a lamp.</think>",
        "They spoke of a lamp.</think> ",
        "<THINKING>They spoke.</THINKING>",
        "<reasoning>a</reasoning><thought>b</thought>",
        "<think></think>",
    ],
)
def test_a_reply_of_reasoning_alone_is_not_taken(text: str) -> None:
    assert gate(text) is Rejection.REASONING_ONLY


def test_a_reply_whose_reasoning_came_apart_is_known_by_it() -> None:
    verdict = judge(Reply(" ", reasoned=True), limit=100, replaces=100)
    assert verdict.rejection is Rejection.REASONING_ONLY
    assert judge(Reply(SUMMARY, reasoned=True), limit=100, replaces=100).rejection is None


@pytest.mark.parametrize(
    "text",
    [
        f"<think>What was said?</think>{SUMMARY}",
        f"<think>\nWhat was said?\n</think>\n\n{SUMMARY}\n",
        f"What was said?</think>\n{SUMMARY}",
        f"{SUMMARY}<think>Is that all?",
        f"<reasoning>one</reasoning> {SUMMARY} <reasoning>two</reasoning>",
        f"\n {SUMMARY} \n",
    ],
)
def test_reasoning_and_space_around_do_not_enter_the_summary(text: str) -> None:
    assert judge(Reply(text), limit=100, replaces=100) == Verdict(SUMMARY, None)


@pytest.mark.parametrize(
    "label", ["Summary:", "**Summary:**\n\n", "## Summary:\n", "The summary: ", "**Summary**: ", "Facts: "]
)
@pytest.mark.parametrize(
    "text", [SUMMARY, "$40 was paid.", "-5 degrees outside.", "(Room 4) is red.", "「漢字」"]
)
def test_a_heading_before_the_summary_goes_and_nothing_else(label: str, text: str) -> None:
    assert judge(Reply(label + text), limit=100, replaces=100) == Verdict(text, None)
    assert judge(Reply(f"{text} {label}"), limit=100, replaces=100).text == f"{text} {label}".strip()


@pytest.mark.parametrize("text", ["Summary:", "**Summary:**", "<think>x</think>Summary: \u200b"])
def test_a_heading_alone_is_no_summary(text: str) -> None:
    assert gate(text) in (Rejection.EMPTY, Rejection.REASONING_ONLY)


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I\u2019m sorry, but I can\u2019t help with that request.",
        "Sorry, I cannot summarize this conversation.",
        "I am unable to provide a summary.",
        "I won't do that.",
        "As an AI language model, I cannot create this summary.",
        "Unfortunately, I am not able to comply with this request.",
    ],
)
def test_a_reply_that_declines_is_refused(text: str) -> None:
    assert gate(text) is Rejection.REFUSED


def test_a_reply_that_is_marked_as_a_refusal_is_refused() -> None:
    assert judge(Reply(SUMMARY, refused=True), limit=100, replaces=100).rejection is Rejection.REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "The user said: I'm sorry, I can't assist with the move on Friday.",
        "The assistant could not help with the key and apologised.",
        "I can't provide the code" + " and so on" * 60,
    ],
)
def test_a_summary_that_tells_of_a_refusal_is_taken(text: str) -> None:
    assert gate(text) is None


@pytest.mark.parametrize("text", ["x" * 10, "漢" * 3 + "x", "👍🏽xx"])
def test_the_limit_is_in_bytes_and_is_itself_allowed(text: str) -> None:
    assert size(text) == 10
    assert gate(text, limit=10) is None
    assert gate(text, limit=9) is Rejection.OVER_LIMIT
    assert gate(text, replaces=10) is None
    assert gate(text, replaces=9) is Rejection.LARGER
    assert gate(text, limit=9, replaces=9) is Rejection.OVER_LIMIT


FINISHES = st.sampled_from(("", "stop", "length", "content_filter", "error"))


@many
@given(broken() | texts(), st.integers(0, 200), st.integers(0, 200), FINISHES, st.booleans())
def test_what_is_taken_can_be_stored_and_seen_and_is_within_both_limits(
    text: str, limit: int, replaces: int, finish: str, refused: bool
) -> None:
    verdict = judge(Reply(text, finish=finish, refused=refused), limit=limit, replaces=replaces)
    size_of = len(verdict.text.encode("utf-8", "strict"))
    assert verdict.text == verdict.text.strip()
    if verdict.rejection is None:
        assert visible(verdict.text)
        assert size_of <= min(limit, replaces)
        assert finish in ("", "stop")
        assert not refused
    if verdict.rejection is Rejection.OVER_LIMIT:
        assert size_of > limit
    if verdict.rejection is Rejection.LARGER:
        assert replaces < size_of <= limit
