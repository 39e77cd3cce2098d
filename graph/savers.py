# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""LangGraph savers ready to use: in memory, in a SQLite file, in a PostgreSQL database."""

from __future__ import annotations

import errno
import importlib.util
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from xr_ai_conversation.graph.stores import Saver, store_of

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

_KEY_LENGTHS = (16, 24, 32)
_POSTGRES = ("postgresql", "postgres")
_TIMEOUT_S = 5
"""How long a commit waits for a connection, before it is tried again or given up."""

_PATIENCE_S = 5
"""How long a store that others set up, or hold, is tried to be set up."""

_LOG_PAGES = 100
"""Pages of 4 KiB after which SQLite copies its write-ahead log into the file; its own 1,000 would be two thirds of what a
participant takes."""

_FILE_REASONS = {
    errno.EEXIST: "a part of its path is no directory",
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "a part of its path is no directory",
}
_SQLITE_REASONS = {
    sqlite3.SQLITE_BUSY: "another program has locked it",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened, check the path and its permissions",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "reading or writing it failed",
    sqlite3.SQLITE_LOCKED: "another program has locked it",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database",
    sqlite3.SQLITE_PERM: "permission is denied",
    sqlite3.SQLITE_READONLY: "it may not be written",
}


class StoreError(RuntimeError):
    """A store cannot be opened; the message is one sentence that says which and why."""


def unusable(place: object, error: BaseException) -> StoreError:
    """Return the error that says which store could not be used, and why.

    Args:
        place: Where it is, as it may be shown.
        error: What the operating system, SQLite or PostgreSQL says.
    """
    return StoreError(f"the database {place} cannot be used: {_reason(error)}")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError):
        return _FILE_REASONS.get(error.errno or 0) or (error.strerror or type(error).__name__).lower()
    # the lowest byte is the primary code; errors of the sqlite3 module itself have none
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _SQLITE_REASONS.get(code) or (str(error).strip().splitlines() or [type(error).__name__])[0]


@asynccontextmanager
async def open_saver(
    where: str | Path, *, key: bytes | None = None, connections: int = 8
) -> AsyncIterator[Saver]:
    """Yield a saver that is set up, and close it afterwards.

    Args:
        where: "memory", `postgresql://user:password@host/database`, or the path of a SQLite file, also as
            `sqlite:///path`. A file that is not there is made, with its folder, so that only its owner may read it.
        key: Encrypts what is stored, by AES; 16, 24 or 32 bytes. Participant ids, times and sizes are in clear. What
            was stored without a key can still be read. None does not encrypt.
        connections: The most connections to PostgreSQL at once; a context manager uses up to 12 more, to keep several
            processes from each other.

    Raises:
        StoreError: It cannot be opened: a folder, a permission, no database, a wrong address or password.
        ValueError: The place or the key cannot be.
    """
    serde = _serializer(key)
    place = str(where)
    if place == "memory":
        yield InMemorySaver(serde=serde)
    elif urlsplit(place).scheme in _POSTGRES:
        async with _postgres(place, serde, connections) as saver:
            yield saver
    else:
        async with _sqlite(_path(place), serde) as saver:
            yield saver


def _serializer(key: bytes | None) -> SerializerProtocol:
    # what is stored is plain JSON: no class is ever loaded, and nothing is unpickled
    plain = JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None)
    if key is None:
        return plain
    if not isinstance(key, bytes) or len(key) not in _KEY_LENGTHS:
        raise ValueError(f"key must be {', '.join(map(str, _KEY_LENGTHS))} bytes long, got {len(key)}")
    if importlib.util.find_spec("Crypto") is None:
        raise StoreError("a key needs the package pycryptodome: pip install 'xr-ai-conversation[encryption]'")
    return EncryptedSerializer.from_pycryptodome_aes(plain, key=key)


def _path(place: str) -> Path:
    if place.startswith("sqlite://"):
        place = place.removeprefix("sqlite://").removeprefix("/")
    if not place or "\0" in place or place == ":memory:":
        raise ValueError(
            f'where must be "memory", a postgresql:// address or the path of a file, got {place!r}'
        )
    if (scheme := urlsplit(place).scheme) and place.startswith(f"{scheme}://"):
        raise ValueError(f"where must be a postgresql:// address or the path of a file, got {scheme}://")
    return Path(place).expanduser()


@asynccontextmanager
async def _sqlite(path: Path, serde: SerializerProtocol) -> AsyncIterator[Saver]:
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    _make(path)
    async with aiosqlite.connect(path) as connection:
        saver = AsyncSqliteSaver(connection, serde=serde)
        try:
            # the change to a write-ahead log does not wait for others that make it at the same moment
            await _set_up(saver, store_of(saver).passing)
            await connection.execute("PRAGMA secure_delete = ON")
            await connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        except sqlite3.Error as error:
            raise unusable(path, error) from error
        yield saver


def _make(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        # a connection that cannot open its file leaves a thread behind, which prints a traceback
        path.open("rb").close()
    except OSError as error:
        raise unusable(path, error) from error


@asynccontextmanager
async def _postgres(address: str, serde: SerializerProtocol, connections: int) -> AsyncIterator[Saver]:
    try:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg import AsyncConnection, Error
        from psycopg.rows import DictRow, dict_row
        from psycopg_pool import AsyncConnectionPool
    except ImportError as error:
        raise StoreError(
            "PostgreSQL needs other packages: pip install 'xr-ai-conversation[postgres]'"
        ) from error
    try:
        async with await AsyncConnection[DictRow].connect(
            address, autocommit=True, row_factory=dict_row, connect_timeout=_TIMEOUT_S
        ) as connection:
            await _set_up(AsyncPostgresSaver(connection), _is_disturbed)
    except Error as error:
        raise unusable(without_password(address), error) from None
    pool: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
        address,
        kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        min_size=1,
        max_size=connections,
        timeout=_TIMEOUT_S,
        check=AsyncConnectionPool.check_connection,
        open=False,
    )
    async with pool:
        yield AsyncPostgresSaver(pool, serde=serde)


async def _set_up(
    saver: AsyncPostgresSaver | AsyncSqliteSaver, passing: Callable[[BaseException], bool]
) -> None:
    """Make the tables; processes that do it at the same moment disturb each other, and the next try finds them made."""
    async for attempt in AsyncRetrying(
        retry=retry_if_exception(passing),
        wait=wait_random_exponential(multiplier=0.05, max=1),
        stop=stop_after_attempt(10) | stop_after_delay(_PATIENCE_S),
        reraise=True,
    ):
        with attempt:
            await saver.setup()


def _is_disturbed(error: BaseException) -> bool:
    from psycopg import errors

    return isinstance(
        error,
        errors.DeadlockDetected
        | errors.DuplicateColumn
        | errors.DuplicateObject
        | errors.DuplicateTable
        | errors.InternalError_
        | errors.UniqueViolation,
    )


def without_password(address: str) -> str:
    """Return the address of a PostgreSQL database as it may be shown."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


__all__ = ["StoreError", "open_saver", "unusable", "without_password"]
