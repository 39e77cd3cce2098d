# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A conversation agent for XR and voice that remembers, as a LangGraph graph."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xr_ai_conversation.graph.build import build_graph
    from xr_ai_conversation.graph.history import Commit, Explanation, HistoryError
    from xr_ai_conversation.graph.middleware import ConversationMiddleware
    from xr_ai_conversation.graph.savers import StoreError, open_saver
    from xr_ai_conversation.nodes.answer import EmptyAnswerError
    from xr_ai_conversation.state.changes import Change, Edit
    from xr_ai_conversation.state.compaction import CompactionPrompts
    from xr_ai_conversation.state.context import ContextSchemaError
    from xr_ai_conversation.state.render import ContextBlock
    from xr_ai_conversation.xr.context import ContextManager
    from xr_ai_conversation.xr.conversation import Conversation
    from xr_ai_conversation.xr.host import ConversationContextUpdate

_HOMES = {
    "Change": "state.changes",
    "Commit": "graph.history",
    "CompactionPrompts": "state.compaction",
    "ContextBlock": "state.render",
    "ContextManager": "xr.context",
    "ContextSchemaError": "state.context",
    "Conversation": "xr.conversation",
    "ConversationContextUpdate": "xr.host",
    "ConversationMiddleware": "graph.middleware",
    "Edit": "state.changes",
    "EmptyAnswerError": "nodes.answer",
    "Explanation": "graph.history",
    "HistoryError": "graph.history",
    "StoreError": "graph.savers",
    "build_graph": "graph.build",
    "open_saver": "graph.savers",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for; LangGraph and LangChain take a second or two to load."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Show the public names before they are loaded."""
    return sorted({*globals(), *__all__})


__all__ = [
    "Change",
    "Commit",
    "CompactionPrompts",
    "ContextBlock",
    "ContextManager",
    "ContextSchemaError",
    "Conversation",
    "ConversationContextUpdate",
    "ConversationMiddleware",
    "Edit",
    "EmptyAnswerError",
    "Explanation",
    "HistoryError",
    "StoreError",
    "build_graph",
    "open_saver",
]
