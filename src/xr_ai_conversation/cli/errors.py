# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, said in one sentence with an exit code: 2 for a wrong invocation, 1 for all else."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

_FILE_REASONS = {
    errno.EEXIST: "a part of its path is no directory",
    errno.EISDIR: "it is a directory",
    errno.ENOTDIR: "a part of its path is no directory",
}
_DATABASE_REASONS = {
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


class Failure(click.ClickException):
    """A command, or a line of a session, that could not be done; its message is one sentence."""

    exit_code = 1


class DatabaseFailure(Failure):
    """The database cannot be used.

    Args:
        path: Of the database.
        error: What the operating system or SQLite says.
    """

    def __init__(self, path: Path, error: OSError | sqlite3.Error) -> None:
        if isinstance(error, OSError):
            reason = _FILE_REASONS.get(error.errno or 0) or (error.strerror or type(error).__name__).lower()
        else:
            # the lowest byte is the primary code; errors of the sqlite3 module itself have none
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            reason = _DATABASE_REASONS.get(code) or str(error)
        super().__init__(f"The database {path} cannot be used: {reason}.")


@contextmanager
def explained(database: Path) -> Iterator[None]:
    """Turn what can be foreseen to go wrong into a `Failure`; anything else is a fault of ours, and goes on.

    Args:
        database: Path of the database that is in use.
    """
    try:
        yield
    except (click.ClickException, BrokenPipeError):  # the latter: nobody reads our output any more
        raise
    except sqlite3.Error as error:
        raise DatabaseFailure(database, error) from error
    except Exception as error:
        if sentence := _sentence(error):
            raise Failure(sentence) from error
        raise


def _sentence(error: Exception) -> str | None:
    from xr_ai_conversation.models import explain
    from xr_ai_conversation.nodes.answer import EmptyAnswerError
    from xr_ai_conversation.state.context import ContextSchemaError

    if isinstance(error, ContextSchemaError | EmptyAnswerError):
        text = str(error)
        return f"{text[0].upper()}{text[1:]}."
    if sentence := explain(error):
        return sentence
    if type(error).__module__.partition(".")[0] in ("openai", "httpx", "langchain_core", "langchain_openai"):
        first_line = (str(error).splitlines() or [""])[0]
        return f"The model failed with {type(error).__name__}: {first_line[:200]}"
    return None


__all__ = ["DatabaseFailure", "Failure", "explained"]
