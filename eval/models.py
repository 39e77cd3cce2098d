# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The models of a run: the embedded one, or any OpenAI-compatible endpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from eval.memories import Models
from xr_ai_conversation import CompactionPrompts
from xr_ai_conversation.models import EmbeddedModel, openai_model


@contextmanager
def open_models(model: str | None, base_url: str | None) -> Iterator[Models]:
    """Open the endpoint's model if one is named, here or by OPENAI_MODEL, and else the embedded one."""
    if model or base_url or os.environ.get("OPENAI_MODEL"):
        llm = openai_model(model, base_url=base_url)
        yield Models(model or os.environ["OPENAI_MODEL"], llm, llm, CompactionPrompts(), llm)
    else:
        with EmbeddedModel() as embedded:
            yield Models("embedded", embedded.answers, embedded.summaries, embedded.prompts, embedded.answers)


class IdealSummariser(BaseChatModel):
    """Keeps each planted statement that stands in its request, and nothing else: no fact is lost by a summary.

    With it, what is measured is how the context is shown and read, apart from how well a model summarises.
    """

    statements: Sequence[str]

    @property
    def _llm_type(self) -> str:
        return "ideal-summariser"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        text = "\n".join(str(message.content) for message in messages)
        kept = sorted((found, each) for each in self.statements if (found := text.rfind(each)) >= 0)
        summary = " ".join(each for _, each in kept) or "Small talk."
        return ChatResult(generations=[ChatGeneration(message=AIMessage(summary))])


_IDEAL = IdealSummariser(statements=())
NO_MODEL = Models("none", _IDEAL, _IDEAL, CompactionPrompts(), _IDEAL)
"""For prompts that are looked at and not sent."""


def with_ideal_summaries(models: Models, statements: Sequence[str]) -> Models:
    """Return the models with a summariser that loses no statement."""
    ideal = IdealSummariser(statements=statements)
    return replace(models, summaries=ideal, peer_summaries=ideal)


__all__ = ["NO_MODEL", "IdealSummariser", "open_models", "with_ideal_summaries"]
