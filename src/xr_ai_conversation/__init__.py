# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A conversation agent for XR and voice that remembers, as a LangGraph graph."""

from __future__ import annotations

from xr_ai_conversation.graph.build import build_graph
from xr_ai_conversation.graph.conversation import Conversation
from xr_ai_conversation.graph.manager import ContextManager
from xr_ai_conversation.nodes.answer import EmptyAnswerError
from xr_ai_conversation.state.compaction import CompactionPrompts
from xr_ai_conversation.state.context import ContextSchemaError
from xr_ai_conversation.state.render import ContextBlock

__all__ = [
    "CompactionPrompts",
    "ContextBlock",
    "ContextManager",
    "ContextSchemaError",
    "Conversation",
    "EmptyAnswerError",
    "build_graph",
]
