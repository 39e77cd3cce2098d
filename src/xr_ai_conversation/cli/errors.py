# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, said in one sentence with an exit code: 2 for a wrong invocation, 1 for all else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import click


class Failure(click.ClickException):
    """A command, or a line of a session, that could not be done; its message is one sentence."""

    exit_code = 1


class DatabaseFailure(Failure):
    """The database cannot be used.

    Args:
        place: Where it is.
        error: What the operating system or the database says.
    """

    def __init__(self, place: object, error: BaseException) -> None:
        from xr_ai_conversation.graph.savers import unusable

        super().__init__(_capital(unusable(place, error)))


@contextmanager
def explained(database: object) -> Iterator[None]:
    """Turn what can be foreseen to go wrong into a `Failure`; anything else is a fault of ours, and goes on.

    Args:
        database: Where the database is that is in use.
    """
    try:
        yield
    except (click.ClickException, BrokenPipeError):  # the latter: nobody reads our output any more
        raise
    except sqlite3.Error as error:
        raise DatabaseFailure(database, error) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("psycopg", "psycopg_pool"):
            raise DatabaseFailure(database, error) from error
        if sentence := _sentence(error):
            raise Failure(sentence) from error
        raise


def _sentence(error: Exception) -> str | None:
    from xr_ai_conversation.graph.history import HistoryError
    from xr_ai_conversation.graph.savers import StoreError
    from xr_ai_conversation.models import explain
    from xr_ai_conversation.nodes.answer import EmptyAnswerError
    from xr_ai_conversation.state.context import ContextSchemaError

    if isinstance(error, ContextSchemaError | EmptyAnswerError | HistoryError | StoreError):
        return _capital(error)
    if sentence := explain(error):
        return sentence
    if type(error).__module__.partition(".")[0] in ("openai", "httpx", "langchain_core", "langchain_openai"):
        first_line = (str(error).splitlines() or [""])[0]
        return f"The model failed with {type(error).__name__}: {first_line[:200]}"
    return None


def _capital(error: Exception) -> str:
    text = str(error)
    return f"{text[0].upper()}{text[1:]}."


__all__ = ["DatabaseFailure", "Failure", "explained"]
