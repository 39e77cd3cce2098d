# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The database that keeps what is remembered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xr_ai_conversation.cli.errors import DatabaseFailure

if TYPE_CHECKING:
    from xr_ai_conversation.graph.history import Kept
    from xr_ai_conversation.graph.stores import Saver
    from xr_ai_conversation.state.context import ParticipantContext


def default_path() -> Path:
    """Return where the database of this user is."""
    from platformdirs import user_data_path

    return user_data_path("xr-ai-conversation", appauthor=False) / "conversations.db"


@dataclass(frozen=True, slots=True)
class Place:
    """Where contexts are kept."""

    where: Path | str
    """The path of a SQLite file, or the address of a PostgreSQL database."""

    def __str__(self) -> str:
        from xr_ai_conversation.graph.savers import without_password

        return str(self.where) if isinstance(self.where, Path) else without_password(self.where)

    def exists(self) -> bool:
        """Tell whether there is such a file; of a server nothing is known before it is asked.

        Raises:
            DatabaseFailure: It cannot be told.
        """
        try:
            return not isinstance(self.where, Path) or self.where.exists()
        except OSError as error:
            raise DatabaseFailure(self, error) from error


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Saver]:
    """Open a database; a file is made if it is not there, with its directory.

    Raises:
        StoreError: It cannot be opened or made.
    """
    from xr_ai_conversation.graph.savers import open_saver

    async with open_saver(place.where) as saver:
        yield saver


async def stored(saver: Saver, participant: str) -> ParticipantContext:
    """Return what is stored of a participant; it is only read.

    Raises:
        ContextSchemaError: What is stored is damaged, or of a newer version.
    """
    from xr_ai_conversation.graph.stores import reading, store_of
    from xr_ai_conversation.state.context import load

    with reading(participant):
        return load((await store_of(saver).head(participant)).value)


async def look_up(place: Place, participant: str) -> ParticipantContext:
    """Return what a database holds of a participant; a file that is not there is not made.

    Raises:
        ContextSchemaError: What is stored is damaged, or of a newer version.
        StoreError: It cannot be opened.
    """
    from xr_ai_conversation.state.context import empty

    if not place.exists():
        return empty()
    async with opened(place) as saver:
        return await stored(saver, participant)


async def look_back(place: Place, participant: str) -> list[Kept]:
    """Return the checkpoints of a participant that a database keeps, oldest first; errors are those of `look_up`."""
    from xr_ai_conversation.graph.history import kept
    from xr_ai_conversation.graph.stores import reading, store_of

    if not place.exists():
        return []
    async with opened(place) as saver:
        with reading(participant):
            return [kept(found) for found in await store_of(saver).checkpoints(participant)]


async def forget(place: Place, participant: str) -> bool:
    """Delete what a database holds of a participant, damaged or not, and tell whether there was anything.

    Raises:
        StoreError: It cannot be opened.
    """
    from xr_ai_conversation.graph.stores import reading, store_of
    from xr_ai_conversation.state.context import ContextSchemaError

    if not place.exists():
        return False
    async with opened(place) as saver:
        store = store_of(saver)
        try:
            with reading(participant):
                known = (await store.head(participant)).checkpoint_id is not None
        except ContextSchemaError:
            known = True
        if known:
            async with store.exclusive(participant) as writer:
                await store.forget(participant, writer)
        await store.close()
        return known


__all__ = ["Place", "default_path", "forget", "look_back", "look_up", "opened", "stored"]
