# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The model of benchmarks in which a model matters: the embedded one, or any OpenAI-compatible endpoint."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel

from xr_ai_conversation.models import EmbeddedModel, openai_model


@dataclass(frozen=True, slots=True)
class Models:
    """A model that answers, and one that summarises."""

    answers: BaseChatModel
    summaries: BaseChatModel


@asynccontextmanager
async def real_models(answer_tokens: int) -> AsyncIterator[Models]:
    """Yield the models that OPENAI_MODEL names, or else the embedded ones.

    Args:
        answer_tokens: The longest answer.
    """
    limits = {"max_tokens": answer_tokens, "stream_usage": True}
    if os.environ.get("OPENAI_MODEL"):
        model = openai_model()
        yield Models(model.model_copy(update=limits), model)
    else:
        async with EmbeddedModel() as embedded:
            yield Models(embedded.answers.model_copy(update=limits), embedded.summaries)


def model_name() -> str:
    """Return the name of the model, for the page."""
    return os.environ.get("OPENAI_MODEL") or "the embedded model"


__all__ = ["Models", "model_name", "real_models"]
