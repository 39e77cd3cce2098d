# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What the savers must do for us beyond their contract: order, exclusion, pruning and forgetting."""

from __future__ import annotations

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from xr_ai_conversation.graph.stores.base import Channel, Head, Saver, Store, thread
from xr_ai_conversation.graph.stores.ids import first_id, sort_after
from xr_ai_conversation.graph.stores.memory import MemoryStore
from xr_ai_conversation.graph.stores.postgres import PostgresStore
from xr_ai_conversation.graph.stores.reading import reading
from xr_ai_conversation.graph.stores.sqlite import SqliteStore


def store_of(saver: Saver) -> Store:
    """Return the store of a saver's kind.

    Raises:
        TypeError: The saver has no asynchronous methods.
    """
    kind = type(saver)
    if not isinstance(saver, BaseCheckpointSaver):
        raise TypeError(
            f"checkpointer must be a LangGraph saver, as open_saver opens one by where it is, got {kind.__name__}"
        )
    if kind.aget_tuple is BaseCheckpointSaver.aget_tuple or kind.__name__ == "SqliteSaver":
        raise TypeError(f"checkpointer must be asynchronous, such as AsyncSqliteSaver, got {kind.__name__}")
    if isinstance(saver, InMemorySaver):
        return MemoryStore(saver)
    if isinstance(saver, AsyncSqliteSaver):
        return SqliteStore(saver)
    if any(base.__module__.startswith("langgraph.checkpoint.postgres") for base in kind.__mro__):
        return PostgresStore(saver)
    return Store(saver)


__all__ = ["Channel", "Head", "Saver", "Store", "first_id", "reading", "sort_after", "store_of", "thread"]
