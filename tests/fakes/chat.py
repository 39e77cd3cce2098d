# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A chat model that streams on command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field

_T = TypeVar("_T")

Piece: TypeAlias = "str | AIMessageChunk | BaseException"
"""What a model streams next: text, a whole chunk, or an error that it raises."""

Script: TypeAlias = Callable[[list[BaseMessage]], AsyncIterator[Piece]]


def says(*pieces: Piece) -> Script:
    """Return a script that streams the same pieces at every request."""

    async def script(_: list[BaseMessage]) -> AsyncIterator[Piece]:
        for piece in pieces:
            yield piece

    return script


def replies(answer: Callable[[list[BaseMessage]], str | AIMessageChunk | Awaitable[str]]) -> Script:
    """Return a script whose one piece is what a function makes of the messages; it may be awaitable."""

    async def script(messages: list[BaseMessage]) -> AsyncIterator[Piece]:
        piece = answer(messages)
        yield piece if isinstance(piece, str | AIMessageChunk) else await piece

    return script


def calls(*wanted: tuple[str, dict[str, Any]]) -> AIMessageChunk:
    """Return a chunk that calls tools, each given by its name and its arguments."""
    return AIMessageChunk(
        content="", tool_calls=[tool_call(name=n, args=args, id=str(uuid4())) for n, args in wanted]
    )


class ScriptedModel(BaseChatModel):
    """Answers each request by its script, and keeps the requests; the script knows which tools there are."""

    script: Script = Field(default_factory=lambda: says("ok"))
    requests: list[list[BaseMessage]] = Field(default_factory=list)
    """The messages of each request, in the order in which they came."""
    closed: int = 0
    """How many of its streams have ended, in whatever way."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        assert not kwargs, f"a request must use the model's own defaults, got {kwargs}"
        self.requests.append(messages)
        try:
            async for piece in self.script(messages):
                if isinstance(piece, BaseException):
                    raise piece
                chunk = AIMessageChunk(content=piece) if isinstance(piece, str) else piece
                yield ChatGenerationChunk(message=chunk)
        finally:
            self.closed += 1

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        chunks = self._astream(messages, stop, None, **kwargs)
        while (chunk := _at_once(anext(chunks, None))) is not None:
            yield chunk

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        whole: AIMessageChunk | None = None
        async for chunk in self._astream(messages, stop, None, **kwargs):
            assert isinstance(chunk.message, AIMessageChunk)
            whole = chunk.message if whole is None else whole + chunk.message
        found = whole or AIMessageChunk(content="")
        message = AIMessage(
            found.content,
            response_metadata=found.response_metadata,
            additional_kwargs=found.additional_kwargs,
            tool_calls=found.tool_calls,
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _at_once(self._agenerate(messages, stop, None, **kwargs))


def _at_once(work: Awaitable[_T]) -> _T:
    """Return what a script gives without waiting, which is all that a synchronous call can take."""
    step = work.__await__()
    try:
        next(step)
    except StopIteration as end:
        found: _T = end.value
        return found
    raise RuntimeError("a script that waits is for asynchronous calls")


def asks_for_summary(messages: Sequence[BaseMessage]) -> bool:
    """Tell whether a request is that of a compaction."""
    return "End of the text." in texts(messages)[-1]


def texts(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the text of each message of a request."""
    return [str(message.content) for message in messages]


__all__ = ["Piece", "Script", "ScriptedModel", "asks_for_summary", "calls", "replies", "says", "texts"]
