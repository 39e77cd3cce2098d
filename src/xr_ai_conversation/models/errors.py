# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Errors of chat models, in words that tell a user what to do."""

from collections.abc import Iterator

import httpx
import openai


class EmbeddedModelError(RuntimeError):
    """Raised when the embedded model is not installed, does not load or is not running."""


class ContextTooSmallError(ValueError):
    """Raised before anything is generated, when a request does not fit into a model's context.

    Args:
        needed: Tokens of the prompt and the longest reply allowed for.
        allowed: Tokens that the model's context holds.
    """

    def __init__(self, needed: int, allowed: int) -> None:
        super().__init__(
            f"The request needs {needed:,} tokens with its reply and the model holds {allowed:,}: "
            "use smaller budgets or a shorter request."
        )
        self.needed = needed
        self.allowed = allowed


_TOO_LARGE = "The request does not fit into the model's context: use smaller budgets or a shorter request."
_OVERFLOW = (
    "context_length_exceeded",
    "exceed_context_size_error",
    "available context size",
    "maximum context length",
    "maximum number of tokens",
    "context window",
    "contextwindowexceedederror",
    "prompt is too long",
    "too many tokens",
)


def explain(error: BaseException) -> str | None:
    """Say in one sentence what went wrong with a chat model and what to do about it.

    It knows OpenAI-compatible clients and those that raise in their shape, and never repeats
    what was sent or received.

    Args:
        error: What a model call, or the start of a model, raised.

    Returns:
        The sentence, or None for an error that is not known.
    """
    for cause in _chain(error):
        if sentence := _explain_one(cause):
            return sentence
    return None


def _explain_one(error: BaseException) -> str | None:
    status = getattr(error, "status_code", None)
    if isinstance(error, EmbeddedModelError | ContextTooSmallError):
        return str(error)
    if status is not None or isinstance(error, openai.APIError):
        details = f"{error} {getattr(error, 'body', '')}".lower()
        if any(words in details for words in _OVERFLOW):
            return _TOO_LARGE
    if isinstance(error, TimeoutError | httpx.TimeoutException | openai.APITimeoutError):
        return "The model's server did not answer in time: check that it is not overloaded, then try again."
    if isinstance(error, ConnectionError | httpx.TransportError | openai.APIConnectionError):
        return "The model's server cannot be reached: check that it runs and that the base URL is right."
    if status in (401, 403):
        return "The model's server refused the API key: check OPENAI_API_KEY and what the key may use."
    if status == 404:
        return "The model's server knows no such model or path: check the model's name and the base URL."
    if status == 429:
        return "The model's server limits how much this key may use: wait a little or raise the limit."
    if isinstance(status, int) and status >= 500:
        return f"The model's server failed with HTTP status {status}: try again, and look at its log."
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, then what it groups or was raised from."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _chain(inner)
    if cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        yield from _chain(cause)


__all__ = ["ContextTooSmallError", "EmbeddedModelError", "explain"]
