# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The SQLite file that keeps what is remembered."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xr_ai_conversation.cli.errors import DatabaseFailure

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from xr_ai_conversation.state.context import ParticipantContext


def default_path() -> Path:
    """Return where the database of this user is."""
    from platformdirs import user_data_path

    return user_data_path("xr-ai-conversation", appauthor=False) / "conversations.db"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    """Open the database, and make it and its directory if they are not there.

    Args:
        path: Of the file, which only its owner may read if it is made here.

    Raises:
        DatabaseFailure: It cannot be opened or made.
    """
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    _make(path)
    try:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            await saver.setup()
            yield saver
    except sqlite3.Error as error:
        raise DatabaseFailure(path, error) from error


async def stored(saver: AsyncSqliteSaver, participant: str) -> ParticipantContext:
    """Return what is stored of a participant; it is only read.

    Raises:
        ContextSchemaError: What is stored is damaged, or of a newer version.
    """
    from xr_ai_conversation.graph.stores import store_of
    from xr_ai_conversation.state.context import ContextSchemaError, load

    try:
        return load((await store_of(saver).head(participant)).context)
    except ContextSchemaError as error:
        raise ContextSchemaError(f"participant {participant!r}: {error}") from None


async def look_up(path: Path, participant: str) -> ParticipantContext:
    """Return what a database holds of a participant; a file that is not there is not made.

    Raises:
        ContextSchemaError: What is stored is damaged, or of a newer version.
        DatabaseFailure: It cannot be opened.
    """
    from xr_ai_conversation.state.context import empty

    if not exists(path):
        return empty()
    async with opened(path) as saver:
        return await stored(saver, participant)


async def forget(path: Path, participant: str) -> bool:
    """Delete what a database holds of a participant, damaged or not, and tell whether there was anything.

    Raises:
        DatabaseFailure: It cannot be opened or changed.
    """
    from xr_ai_conversation.graph.stores import store_of

    if not exists(path):
        return False
    async with opened(path) as saver:
        store = store_of(saver)
        known = (await store.head(participant)).checkpoint_id is not None
        if known:
            await store.forget(participant)
        return known


def _make(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        # a connection that cannot open its file leaves a thread behind, which prints a traceback
        path.open("rb").close()
    except OSError as error:
        raise DatabaseFailure(path, error) from error


def exists(path: Path) -> bool:
    """Tell whether there is a file.

    Raises:
        DatabaseFailure: It cannot be told.
    """
    try:
        return path.exists()
    except OSError as error:
        raise DatabaseFailure(path, error) from error


__all__ = ["default_path", "exists", "forget", "look_up", "opened", "stored"]
