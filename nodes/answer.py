# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that answers a request, streaming the answer while it is made."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langgraph.types import StreamWriter

from xr_ai_conversation.nodes.message import finish_of, text_of
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.context import load
from xr_ai_conversation.state.manifest import manifest, outline
from xr_ai_conversation.state.participant import ParticipantState
from xr_ai_conversation.state.prompt import PromptView, context_message, prompt_view
from xr_ai_conversation.state.reasoning import Speech
from xr_ai_conversation.state.reply import cut_off
from xr_ai_conversation.state.times import instant, stamp

_LOG = logging.getLogger(__name__)


_NO_CHUNKS = "No generation chunks were returned"
"""What LangChain raises for a model that streams nothing at all."""


class EmptyAnswerError(RuntimeError):
    """The model ended without a text that could be spoken; nothing was recorded."""


def answer_messages(system: str, seen: PromptView, request: str, now: datetime) -> list[BaseMessage]:
    """Return the three messages of an answer request: system, context and request.

    Args:
        system: The system prompt and the application's instructions; no clock is in it.
        seen: What is shown of the participant's context.
        request: What the participant says now; it is never cut.
        now: The current time, with its zone; it ends the context message.
    """
    return [
        SystemMessage(system),
        HumanMessage(context_message(seen.blocks, now)),
        HumanMessage(request),
    ]


def answer_node(
    llm: BaseChatModel, system: str, budgets: Budgets, clock: Callable[[], datetime]
) -> Callable[[ParticipantState, StreamWriter], Awaitable[ParticipantState]]:
    """Return the node that answers `request`.

    It writes each piece of the answer to the custom stream, from the first visible character on and without
    reasoning, and returns the whole as `reply`, with the manifest of what it was made from. The current time that it
    tells is `asked`, where that is given.

    Args:
        llm: Any chat model.
        system: The system message.
        budgets: Of the sections.
        clock: Returns the current time, with its zone.
    """

    async def answer(state: ParticipantState, writer: StreamWriter) -> ParticipantState:
        now = instant(state["asked"]) if "asked" in state else clock()
        request = state["request"]
        context = load(state.get("context"))
        seen = prompt_view(context, budgets)
        messages = answer_messages(system, seen, request, now)
        speech, said, finish = Speech(), list[str](), ""
        try:
            async for chunk in llm.astream(
                messages, {"run_name": "answer request", "metadata": outline(seen, now)}
            ):
                finish = finish_of(chunk) or finish
                if text := speech.feed(text_of(chunk)):
                    said.append(text)
                    writer(text)
        except ValueError as error:
            if str(error) != _NO_CHUNKS:
                raise
        if text := speech.end():
            said.append(text)
            writer(text)
        if not said:
            raise EmptyAnswerError("the model returned an empty answer; nothing was recorded")
        if cut_off(finish):
            _LOG.warning(
                "an answer of %d characters was cut off by the model (%s)", len("".join(said)), finish
            )
        told = manifest(context, budgets, seen, now)
        return {"request": request, "reply": "".join(said), "asked": stamp(now), "manifest": told}

    return answer


__all__ = ["EmptyAnswerError", "answer_messages", "answer_node"]
