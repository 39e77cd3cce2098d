# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A chat model over connections to a server of this process, which end when the server must."""

import re
import socket
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import httpx
import openai
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from xr_ai_conversation.models.errors import ContextTooSmallError

_SUMMARY_BEGUN = "Facts: 1."
# What the server takes for the end or the beginning of a message, also in the midst of one
_CHAT_MARKER = re.compile(r"<\|(?=\w+\|>)")
_NO_KEY = "none"  # given, so that no key of the user's is read; the server's own key replaces it


class Wire:
    """The connections to our own servers: what they carry, and how they end.

    A server that is freed waits for its requests, and they for their clients, which cannot run
    meanwhile; so each connection is ended before the servers are.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._streams: weakref.WeakSet[Any] = weakref.WeakSet()
        self._cut = False

    def cut(self) -> None:
        """End every connection, from any thread, and each one that is still being opened."""
        self._cut = True
        for stream in list(self._streams):
            _shut(stream)

    def prepare(self, request: httpx.Request) -> None:
        """Take out of a request what OPENAI_* variables add to every request, and watch its connection."""
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in ("host", "content-type", "content-length") or name.startswith("x-stainless-")
        }
        request.headers = httpx.Headers(headers | {"authorization": f"Bearer {self._key}"})
        request.extensions["trace"] = self.trace

    async def aprepare(self, request: httpx.Request) -> None:
        """Do as prepare, for asynchronous clients."""
        self.prepare(request)
        request.extensions["trace"] = self.atrace

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Keep hold of a connection that was opened."""
        if event == "connection.connect_tcp.complete":
            self._streams.add(info["return_value"])
            if self._cut:
                _shut(info["return_value"])

    async def atrace(self, event: str, info: dict[str, Any]) -> None:
        """Do as trace, for asynchronous clients."""
        self.trace(event, info)


def _shut(stream: Any) -> None:
    with suppress(OSError):
        stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class LoopbackChat(ChatOpenAI):
    """ChatOpenAI that says in one sentence when a request does not fit the model's context.

    Its messages are text all through: a marker of the chat template in one cannot end it and begin another.
    """

    def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        payload = super()._get_request_payload(*args, **kwargs)
        messages = [{**sent, "content": _plain(sent["content"])} for sent in payload["messages"]]
        return {**payload, "messages": messages}

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._fitting():
            return super()._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        with self._fitting():
            return await super()._agenerate(*args, **kwargs)

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        with self._fitting():
            yield from super()._stream(*args, **kwargs)

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        with self._fitting():
            async for chunk in super()._astream(*args, **kwargs):
                yield chunk

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        try:
            yield
        except openai.BadRequestError as error:
            if not isinstance(error.body, dict) or error.body.get("type") != "exceed_context_size_error":
                raise
            needed = error.body["n_prompt_tokens"] + (self.max_tokens or 0)
            raise ContextTooSmallError(needed, error.body["n_ctx"]) from error


def _plain(content: Any) -> Any:
    if isinstance(content, str):
        return _CHAT_MARKER.sub("< |", content)
    if isinstance(content, list):
        return [{**block, "text": _plain(block["text"])} if "text" in block else block for block in content]
    return content


class SummaryChat(LoopbackChat):
    """LoopbackChat whose replies are begun for it: a tiny model asked for a summary goes on with the dialogue.

    The beginning sets it on its way: in a numbered list on one line it keeps what it was told, where a paragraph is
    about the text and has none of it.
    """

    def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        payload = super()._get_request_payload(*args, **kwargs)
        begun = {"role": "assistant", "content": _SUMMARY_BEGUN}
        return {**payload, "messages": [*payload["messages"], begun]}


_Chat = TypeVar("_Chat", bound=LoopbackChat)

# "DRY" sampling: a tiny model that has said the same six tokens once would go on saying them until it is cut off
_NO_LOOPS = {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 6, "dry_penalty_last_n": 256}


def loopback_chat(
    kind: type[_Chat],
    model: str,
    address: str,
    wire: Wire,
    max_tokens: int,
    *,
    repeat_penalty: float,
    stop: Sequence[str],
) -> _Chat:
    """Return a chat model that goes to one server of this process, whatever the environment says.

    Args:
        kind: LoopbackChat, or SummaryChat.
        model: The name that replies carry.
        address: The server's, such as http://127.0.0.1:8080.
        wire: What its connections go through.
        max_tokens: The longest reply, unless a call asks for another.
        repeat_penalty: From 1.0, none, upwards. It counts the prompt too: with much, a tiny model avoids the very
            words that it was told, and invents others.
        stop: Texts that end a reply, and are not part of it.
    """
    timeout = httpx.Timeout(None, connect=10.0)
    # A kept connection would tie the model to the event loop that opened it.
    limits = httpx.Limits(max_keepalive_connections=0)
    return kind(
        model=model,
        base_url=f"{address}/v1",
        api_key=SecretStr(_NO_KEY),
        openai_proxy=None,
        http_client=httpx.Client(
            event_hooks={"request": [wire.prepare]}, trust_env=False, limits=limits, timeout=timeout
        ),
        http_async_client=httpx.AsyncClient(
            event_hooks={"request": [wire.aprepare]}, trust_env=False, limits=limits, timeout=timeout
        ),
        timeout=timeout,
        stream_chunk_timeout=None,
        max_retries=0,
        stream_usage=True,
        use_responses_api=False,
        temperature=0.0,
        stop_sequences=list(stop),
        max_completion_tokens=max_tokens,
        extra_body={"cache_prompt": True, "repeat_penalty": repeat_penalty, **_NO_LOOPS},
    )


__all__ = ["LoopbackChat", "SummaryChat", "Wire", "loopback_chat"]
