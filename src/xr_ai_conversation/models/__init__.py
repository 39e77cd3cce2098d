# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Chat models: the embedded one, any OpenAI-compatible endpoint, and any service of the XR SDK."""

from xr_ai_conversation.models.embedded import EmbeddedModel
from xr_ai_conversation.models.endpoint import openai_model
from xr_ai_conversation.models.errors import ContextTooSmallError, EmbeddedModelError, explain
from xr_ai_conversation.models.service import ServiceChat

__all__ = [
    "ContextTooSmallError",
    "EmbeddedModel",
    "EmbeddedModelError",
    "ServiceChat",
    "explain",
    "openai_model",
]
