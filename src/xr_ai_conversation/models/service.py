# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A chat model over an LLMService of the XR SDK."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, NoReturn, cast

from langchain_core.caches import BaseCache
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from pydantic import Field, PrivateAttr, field_validator

from xr_ai_conversation.nodes.message import text_of

_SDK = "xr_ai_models"


@dataclass(frozen=True, slots=True)
class _ToolCall:
    id: str
    name: str
    arguments: str
    """A JSON object."""


@dataclass(frozen=True, slots=True)
class _ChatMessage:
    role: str
    """system, user, assistant or tool."""
    content: str
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None


def _message_types() -> Any:
    """Return the SDK's module where it can be imported, else what looks like the part of it that is needed."""
    if find_spec(_SDK) is not None:
        return import_module(_SDK)
    return SimpleNamespace(ChatMessage=_ChatMessage, ToolCall=_ToolCall)


class ServiceChat(BaseChatModel):
    """A chat model that asks an `LLMService` of the XR SDK, which stays the application's: it is never closed here.

    It is asynchronous only. The service is given the arguments of the call (`max_tokens`, `tools` as its `ToolDef`
    and so on) and no others, so that what is configured for its model holds.

    `ainvoke` asks `chat`, whatever streams around it, so a reply has its finish reason, tool calls and reasoning.
    `astream` asks `stream`, which yields text only: a streamed answer that was cut off at the output limit looks
    complete. A service that cannot stream, or a call with tools, is answered by `chat` in one piece.

    Args:
        service: An `LLMService`, or whatever has its `chat` and `stream`.

    Raises:
        TypeError: The service has no `chat` or no `stream`.
    """

    service: Any = Field(repr=False, exclude=True)
    # two services cannot be told apart, so a cache that is set for all models would mix up their replies
    cache: BaseCache | bool | None = Field(default=False, exclude=True)
    _types: Any = PrivateAttr(default_factory=_message_types)

    @field_validator("service")
    @classmethod
    def _has_chat_and_stream(cls, service: Any) -> Any:
        if not all(callable(getattr(service, name, None)) for name in ("chat", "stream")):
            raise TypeError(
                f"service must have chat and stream, as an LLMService has, not be a {type(service).__name__}"
            )
        return service

    @property
    def _llm_type(self) -> str:
        return "xr-ai-service"

    async def ainvoke(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AIMessage:
        """Return the whole reply of the service's `chat`."""
        # else a handler that wants tokens, as a graph around may have, would have it made by stream
        return await super().ainvoke(input, config, stop=stop, **{**kwargs, "stream": False})

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = AIMessage(**await self._chat(messages, stop, kwargs))
        return ChatResult(generations=[ChatGeneration(message=reply)])

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        capabilities = getattr(self.service, "capabilities", None)
        if kwargs.get("tools") or not getattr(capabilities, "streaming", True):
            yield _chunk(**await self._chat(messages, stop, kwargs))
            return
        request, arguments = self._request(messages, stop, kwargs)
        async with _closing(self.service.stream(request, **arguments)) as pieces:
            async for piece in pieces:
                yield _chunk(content=piece)
        yield _chunk(content="", chunk_position="last")  # LangChain takes no chunk at all for a failure

    def _generate(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("a service of the XR SDK is asynchronous: use ainvoke or astream")

    async def _chat(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the fields of the message that `chat` replies with."""
        request, arguments = self._request(messages, stop, kwargs)
        response = await self.service.chat(request, **arguments)
        calls = [_called(call) for call in response.tool_calls or ()]
        return {
            "content": response.content or "",
            "additional_kwargs": {"reasoning_content": response.reasoning} if response.reasoning else {},
            "response_metadata": {"finish_reason": response.finish_reason} if response.finish_reason else {},
            "tool_calls": [call for call in calls if call["type"] == "tool_call"],
            "invalid_tool_calls": [call for call in calls if call["type"] != "tool_call"],
        }

    def _request(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return what the service is asked: its messages, and the arguments of the call."""
        if stop:
            raise ValueError(f"stop must be empty, as an LLMService has no stop sequences, not {stop!r}")
        arguments = {name: value for name, value in kwargs.items() if name != "stream"}  # LangChain's own
        return [_message(message, self._types) for message in messages], arguments


@asynccontextmanager
async def _closing(pieces: AsyncIterator[str]) -> AsyncIterator[AsyncIterator[str]]:
    """Close an iterator at the end, as aclosing does, if it can be closed."""
    try:
        yield pieces
    finally:
        if (close := getattr(pieces, "aclose", None)) is not None:
            await close()


def _chunk(**fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**fields))


def _called(call: Any) -> ToolCall | InvalidToolCall:
    """Return a tool call of the service as LangChain has it; its arguments may be no JSON object."""
    try:
        args = json.loads(call.arguments or "{}")
    except ValueError:
        args = None
    if isinstance(args, dict):
        return tool_call(name=call.name, args=args, id=call.id)
    return invalid_tool_call(name=call.name, args=call.arguments, id=call.id, error="not a JSON object")


def _message(message: BaseMessage, types: Any) -> Any:
    match message:
        case SystemMessage():
            return types.ChatMessage(role="system", content=_content(message, types))
        case HumanMessage():
            return types.ChatMessage(role="user", content=_content(message, types))
        case AIMessage():
            # reasoning, and calls that some providers repeat among the blocks, are no part of what was said
            calls = [
                types.ToolCall(
                    id=call["id"] or "",
                    name=call["name"],
                    arguments=json.dumps(call["args"], ensure_ascii=False),
                )
                for call in message.tool_calls
            ]
            return types.ChatMessage(role="assistant", content=text_of(message), tool_calls=calls or None)
        case ToolMessage():
            content = _content(message, types)
            return types.ChatMessage(role="tool", content=content, tool_call_id=message.tool_call_id)
        case _:
            raise ValueError(f"an LLMService has no role for a {type(message).__name__}")


def _content(message: BaseMessage, types: Any) -> Any:
    """Return text as a string, and text with images as the SDK's parts."""
    if isinstance(message.content, str):
        return message.content
    blocks = [
        {"type": "text", "text": block} if isinstance(block, str) else block for block in message.content
    ]
    for block in blocks:
        if block.get("type") not in ("text", "image_url"):
            raise ValueError(f"an LLMService takes text and image_url blocks, not {block.get('type')!r}")
    if all(block["type"] == "text" for block in blocks):
        return text_of(message)
    if not hasattr(types, "ImagePart"):
        raise ValueError(f"a block of type 'image_url' needs the XR SDK's {_SDK}, which is not installed")
    return [
        types.TextPart(text=block["text"]) if block["type"] == "text" else types.ImagePart(url=_url(block))
        for block in blocks
    ]


def _url(block: dict[str, Any]) -> str:
    image = block["image_url"]
    return cast(str, image["url"] if isinstance(image, dict) else image)


__all__ = ["ServiceChat"]
