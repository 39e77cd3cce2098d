# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that answers a request, streaming the answer while it is made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer

from xr_ai_conversation.nodes.message import finish_of, text_of
from xr_ai_conversation.nodes.step import Step
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.chat import is_answered, request_of
from xr_ai_conversation.state.manifest import manifest, outline
from xr_ai_conversation.state.participant import Changes, NodeInput, context_of
from xr_ai_conversation.state.prompt import PromptView, context_message, prompt_view
from xr_ai_conversation.state.reasoning import Speech
from xr_ai_conversation.state.reply import cut_off
from xr_ai_conversation.state.text import clean
from xr_ai_conversation.state.times import instant, stamp

_LOG = logging.getLogger(__name__)

_NO_CHUNKS = "No generation chunks were returned"


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


def _message(speaker: str, text: str, name: str | None = None) -> dict[str, str | None]:
    """Return a message as plain JSON: LangGraph would stream any other once more, as a token."""
    return {"type": speaker, "content": text, "id": name}


class _Answer:
    """An answer while it is made: fed with what the model streams, it tells what of it is spoken."""

    def __init__(
        self, state: NodeInput, system: str, budgets: Budgets, clock: Callable[[], datetime]
    ) -> None:
        given, messages = state.get("request"), state.get("messages", [])
        self._request = clean(given) if given is not None else request_of(messages)
        self._now = instant(state["asked"]) if "asked" in state else clock()
        self._context, self._budgets = context_of(state), budgets
        if given is None and is_answered(messages, self._context["dialogue"]["entries"]):
            raise ValueError("there is no request to answer: the last message is an answer that is recorded")
        self._seen = prompt_view(self._context, budgets)
        self.messages = answer_messages(system, self._seen, self._request, self._now)
        self.config: RunnableConfig = {
            "run_name": "answer request",
            "metadata": outline(self._seen, text_of(self.messages[1])),
        }
        self._asked = [] if given is None else [_message("human", self._request)]
        self._speech = Speech()
        self._said: list[str] = []
        self._finish = ""
        self._id: str | None = None
        self._write = get_stream_writer()

    def feed(self, chunk: BaseMessage) -> None:
        self._finish = finish_of(chunk) or self._finish
        self._id = chunk.id or self._id
        self._speak(self._speech.feed(text_of(chunk)))

    def end(self) -> Changes:
        self._speak(self._speech.end())
        reply = "".join(self._said)
        if not reply:
            raise EmptyAnswerError("the model returned an empty answer; nothing was recorded")
        if cut_off(self._finish):
            fields = {"characters": len(reply), "finish": self._finish}
            _LOG.warning(
                "an answer of %(characters)d characters was cut off by the model (%(finish)s)",
                fields,
                extra=fields,
            )
        return {
            "exchange": {"time": stamp(self._now), "request": self._request, "response": reply},
            "reply": reply,
            "messages": [*self._asked, _message("ai", reply, self._id)],
            "manifest": manifest(self._context, self._budgets, self._seen, self._now),
        }

    def _speak(self, text: str) -> None:
        if text:
            self._said.append(text)
            self._write(text)


@contextmanager
def _if_any() -> Iterator[None]:
    """Pass over what LangChain raises for a model that streams nothing at all."""
    try:
        yield
    except ValueError as error:
        if str(error) != _NO_CHUNKS:
            raise


def answer_node(
    llm: BaseChatModel, system: str, budgets: Budgets, clock: Callable[[], datetime]
) -> Step[NodeInput, Changes]:
    """Return the node that answers `request`, or else the last human one of `messages`.

    It writes each piece of the answer to the custom stream, from the first visible character on and without
    reasoning, and returns the whole as `reply`, and as the `exchange` that is to be recorded, with the manifest of what it
    was made from. The current time that it tells is `asked`, where that is given.

    Args:
        llm: Any chat model.
        system: The system message.
        budgets: Of the sections.
        clock: Returns the current time, with its zone.
    """

    def answer(state: NodeInput) -> Changes:
        made = _Answer(state, system, budgets, clock)
        with _if_any():
            for chunk in llm.stream(made.messages, made.config):
                made.feed(chunk)
        return made.end()

    async def aanswer(state: NodeInput) -> Changes:
        made = _Answer(state, system, budgets, clock)
        with _if_any():
            async for chunk in llm.astream(made.messages, made.config):
                made.feed(chunk)
        return made.end()

    return Step(answer, aanswer)


__all__ = ["EmptyAnswerError", "answer_messages", "answer_node"]
