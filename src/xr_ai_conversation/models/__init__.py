# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Chat models that are ready to use: the embedded one, and any OpenAI-compatible endpoint."""

from xr_ai_conversation.models.embedded import EmbeddedModel
from xr_ai_conversation.models.endpoint import openai_model
from xr_ai_conversation.models.errors import ContextTooSmallError, EmbeddedModelError, explain

__all__ = ["ContextTooSmallError", "EmbeddedModel", "EmbeddedModelError", "explain", "openai_model"]
