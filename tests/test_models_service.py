# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""An LLMService of the XR SDK as a chat model: what it is asked, and what comes of what it says."""

from __future__ import annotations

import asyncio
import importlib.machinery
import subprocess
import sys
import types
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from fakes.clock import Clock
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.runnables import RunnableLambda
from recorded import exchanges

from xr_ai_conversation import ContextManager, Conversation, EmptyAnswerError
from xr_ai_conversation.models import ServiceChat

SECOND = 5.0
"""How long something that should happen at once may take on a busy machine."""


@dataclass
class Call:
    """A call that a service's model asks for."""

    id: str
    name: str
    arguments: str


@dataclass
class Response:
    """What `chat` returns."""

    content: str | None = ""
    reasoning: str | None = None
    tool_calls: list[Call] | None = None
    finish_reason: str | None = "stop"
    raw: dict[str, Any] = field(default_factory=dict)


@dataclass
class Can:
    streaming: bool = True


class Service:
    """An LLMService that answers as it is told, and keeps what it was asked.

    Args:
        *pieces: What `stream` yields; an error is raised, and None waits for ever.
        response: What `chat` returns, an error that it raises, or None to wait for ever.
    """

    def __init__(self, *pieces: str | Exception | None, response: Response | Exception | None = None) -> None:
        self.capabilities = Can()
        self.pieces = pieces
        self.response = response
        self.asked: list[tuple[str, list[Any], dict[str, Any]]] = []
        """The method, the messages and the arguments of each call."""
        self.waiting = asyncio.Event()
        self.cancelled = False
        self.stream_closed = asyncio.Event()
        self.closed = False

    async def chat(self, messages: list[Any], **arguments: Any) -> Response:
        self.asked.append(("chat", messages, arguments))
        if self.response is None:
            await self._wait()
        if isinstance(self.response, Exception):
            raise self.response
        assert self.response is not None
        return self.response

    async def stream(self, messages: list[Any], **arguments: Any) -> AsyncIterator[str]:
        self.asked.append(("stream", messages, arguments))
        try:
            for piece in self.pieces:
                if piece is None:
                    await self._wait()
                elif isinstance(piece, Exception):
                    raise piece
                else:
                    yield piece
        finally:
            self.stream_closed.set()

    async def _wait(self) -> None:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    async def health(self) -> bool:
        return True

    async def close(self) -> None:
        self.closed = True

    def methods(self) -> list[str]:
        return [method for method, _, _ in self.asked]


def says(content: str | None, **fields: Any) -> Service:
    """Return a service whose `chat` says this."""
    return Service(response=Response(content, **fields))


async def sent(*messages: BaseMessage) -> list[Any]:
    """Return what a service is asked when a chat model is asked these messages."""
    service = says("ok")
    await ServiceChat(service=service).ainvoke(list(messages))
    return service.asked[0][1]


def answer(service: Service, **arguments: Any) -> AsyncGenerator[AIMessageChunk, None]:
    """Return a streamed answer."""
    chunks = ServiceChat(service=service).astream("Hi", **arguments)
    assert isinstance(chunks, AsyncGenerator)
    return chunks


async def heard(service: Service, **arguments: Any) -> list[str]:
    """Return the pieces of text of a streamed answer, but for empty ones."""
    return [str(chunk.content) async for chunk in answer(service, **arguments) if chunk.content]


@contextmanager
def sdk(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """Stand in for an installed SDK, with classes of its own."""

    @dataclass(frozen=True)
    class ChatMessage:
        role: str
        content: Any
        tool_calls: list[Any] | None = None
        tool_call_id: str | None = None

    @dataclass(frozen=True)
    class TextPart:
        text: str

    @dataclass(frozen=True)
    class ImagePart:
        url: str

    module = types.ModuleType("xr_ai_models")
    module.__spec__ = importlib.machinery.ModuleSpec("xr_ai_models", None)
    names = {"ChatMessage": ChatMessage, "ToolCall": Call, "TextPart": TextPart, "ImagePart": ImagePart}
    vars(module).update(names)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "xr_ai_models", module)
        yield module


# What the service is asked


async def test_each_message_has_the_role_that_the_sdk_gives_it() -> None:
    call = ToolCall(name="open", args={"what": "Tür"}, id="c1")
    asked = await sent(
        SystemMessage("Be brief."),
        HumanMessage("Open the door."),
        AIMessage("Yes.", tool_calls=[call]),
        ToolMessage("open now", tool_call_id="c1"),
        AIMessage("Done."),
    )
    assert [(each.role, each.content) for each in asked] == [
        ("system", "Be brief."),
        ("user", "Open the door."),
        ("assistant", "Yes."),
        ("tool", "open now"),
        ("assistant", "Done."),
    ]
    (made,) = asked[2].tool_calls
    assert (made.id, made.name, made.arguments) == ("c1", "open", '{"what": "Tür"}')
    assert [each.tool_calls for each in asked if each is not asked[2]] == [None] * 4
    assert [each.tool_call_id for each in asked] == [None, None, None, "c1", None]


async def test_a_message_without_such_a_role_is_refused() -> None:
    with pytest.raises(ValueError, match="no role for a ChatMessage"):
        await sent(ChatMessage(content="Hi", role="developer"))


async def test_text_blocks_are_sent_as_one_text() -> None:
    (asked,) = await sent(HumanMessage(["Look ", {"type": "text", "text": "here."}]))
    assert asked.content == "Look here."


async def test_of_an_earlier_answer_only_the_text_is_sent() -> None:
    thought = {"type": "thinking", "thinking": "The user is wrong."}
    (asked,) = await sent(AIMessage([thought, {"type": "text", "text": "Perhaps."}]))
    assert asked.content == "Perhaps."


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


async def test_an_image_needs_the_sdk() -> None:
    with pytest.raises(ValueError, match="'image_url' needs the XR SDK's xr_ai_models"):
        await sent(HumanMessage([{"type": "text", "text": "What is it?"}, IMAGE]))


async def test_other_blocks_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="not 'image'"):
        await sent(HumanMessage([{"type": "image", "url": "https://example.org/a.png"}]))


async def test_where_the_sdk_can_be_imported_its_classes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with sdk(monkeypatch) as theirs:
        plain, picture = await sent(
            AIMessage("Hi", tool_calls=[ToolCall(name="open", args={}, id="c1")]),
            HumanMessage(
                ["What ", {"type": "text", "text": "is it?"}, IMAGE, {**IMAGE, "image_url": "https://a.b"}]
            ),
        )
    assert plain == theirs.ChatMessage("assistant", "Hi", [theirs.ToolCall("c1", "open", "{}")])
    assert picture == theirs.ChatMessage(
        "user",
        [
            theirs.TextPart("What "),
            theirs.TextPart("is it?"),
            theirs.ImagePart("data:image/png;base64,AA=="),
            theirs.ImagePart("https://a.b"),
        ],
    )


async def test_without_the_sdk_the_messages_cannot_be_changed_either() -> None:
    (asked,) = await sent(HumanMessage("Hi"))
    with pytest.raises(AttributeError):
        asked.content = "Bye"


def test_the_sdk_is_loaded_only_when_a_service_is_given() -> None:
    code = """
        import sys
        from importlib.abc import MetaPathFinder
        class Watch(MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.startswith("xr_ai_models"):
                    raise SystemExit("looked for")
        sys.meta_path.insert(0, Watch())
        import xr_ai_conversation.models
    """
    lines = code.splitlines()
    subprocess.run([sys.executable, "-c", "\n".join(line[8:] for line in lines)], check=True)


@pytest.mark.parametrize("method", ["chat", "stream"])
async def test_only_the_arguments_of_the_call_are_given(method: str) -> None:
    service = Service("Hello.", response=Response("Hello."))
    chat = ServiceChat(service=service)

    async def ask(**arguments: Any) -> None:
        if method == "chat":
            await chat.ainvoke("Hi", **arguments)
        else:
            _ = [chunk async for chunk in chat.astream("Hi", **arguments)]

    await ask()
    await ask(max_tokens=9, temperature=0.5, enable_thinking=True, headers={"x": "y"})
    assert service.methods() == [method, method]
    assert [arguments for _, _, arguments in service.asked] == [
        {},
        {"max_tokens": 9, "temperature": 0.5, "enable_thinking": True, "headers": {"x": "y"}},
    ]


async def test_stop_sequences_are_refused() -> None:
    service = Service("Hello.", response=Response("Hello."))
    with pytest.raises(ValueError, match=r"stop must be empty.*\['END'\]"):
        await ServiceChat(service=service).ainvoke("Hi", stop=["END"])
    with pytest.raises(ValueError, match="stop must be empty"):
        await heard(service, stop=["END"])
    assert service.asked == []


# What comes of what it says


async def test_a_whole_reply_has_its_finish_reason_and_its_reasoning_apart_from_the_text() -> None:
    reply = await ServiceChat(service=says("Hello.", reasoning="Greet.", finish_reason="length")).ainvoke(
        "Hi"
    )
    assert reply.content == "Hello."
    assert reply.response_metadata["finish_reason"] == "length"
    assert reply.additional_kwargs == {"reasoning_content": "Greet."}
    assert reply.usage_metadata is None


@pytest.mark.parametrize("nothing", [None, ""])
async def test_a_reply_may_be_empty(nothing: str | None) -> None:
    reply = await ServiceChat(service=says(nothing, finish_reason=None)).ainvoke("Hi")
    assert reply.content == ""
    assert "finish_reason" not in reply.response_metadata
    assert reply.additional_kwargs == {}


async def test_a_reply_has_its_tool_calls_also_those_that_are_no_json_object() -> None:
    calls = [
        Call("1", "open", '{"door": 2}'),
        Call("2", "now", ""),
        Call("3", "open", "{"),
        Call("4", "open", "[]"),
    ]
    reply = await ServiceChat(service=says(None, tool_calls=calls)).ainvoke("Hi")
    assert [(call["id"], call["name"], call["args"]) for call in reply.tool_calls] == [
        ("1", "open", {"door": 2}),
        ("2", "now", {}),
    ]
    assert [(call["id"], call["args"]) for call in reply.invalid_tool_calls] == [("3", "{"), ("4", "[]")]


async def test_an_answer_streams_piece_by_piece() -> None:
    assert await heard(Service("Hel", "lo", ".")) == ["Hel", "lo", "."]


async def test_a_stream_without_a_piece_is_an_empty_answer() -> None:
    assert await heard(Service()) == []


async def test_a_service_that_cannot_stream_is_asked_for_the_whole() -> None:
    service = Service(response=Response("Hello.", reasoning="Greet.", finish_reason="length"))
    service.capabilities.streaming = False
    chunks = [chunk async for chunk in answer(service, max_tokens=9)]
    assert [chunk.content for chunk in chunks if chunk.content] == ["Hello."]
    assert chunks[0].response_metadata["finish_reason"] == "length"
    assert chunks[0].additional_kwargs == {"reasoning_content": "Greet."}
    assert [(method, arguments) for method, _, arguments in service.asked] == [("chat", {"max_tokens": 9})]


async def test_tool_calls_are_not_lost_to_a_stream() -> None:
    service = says(None, tool_calls=[Call("1", "open", '{"door": 2}')])
    chunks = [chunk async for chunk in answer(service, tools=["a definition"])]
    assert chunks[0].tool_calls == [{"name": "open", "args": {"door": 2}, "id": "1", "type": "tool_call"}]
    assert service.asked[0][2] == {"tools": ["a definition"]}


async def test_a_whole_reply_is_not_streamed_for_a_listener_around() -> None:
    service = Service("Hello.", response=Response("Hello.", finish_reason="length"))
    chat = ServiceChat(service=service)

    async def node(_: str) -> AIMessage:
        return await chat.ainvoke("Hi")

    events = [event async for event in RunnableLambda(node).astream_events("Hi", version="v2")]
    assert service.methods() == ["chat"]
    assert events[-1]["data"]["output"].response_metadata["finish_reason"] == "length"


@pytest.mark.parametrize("begun", [[], ["Hel"]])
async def test_errors_of_the_service_reach_the_caller_as_they_are(begun: list[str]) -> None:
    error = KeyError("choices")
    with pytest.raises(KeyError) as whole:
        await ServiceChat(service=Service(response=error)).ainvoke("Hi")
    service = Service(*begun, error)
    with pytest.raises(KeyError) as streamed:
        await heard(service)
    assert whole.value is streamed.value is error
    assert service.stream_closed.is_set()


class Pieces:
    """An iterator of pieces, no generator, so nothing but its aclose closes it; after the last it waits for ever."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)
        self.waiting = asyncio.Event()
        self.closed = asyncio.Event()

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> str:
        if not self.pieces:
            self.waiting.set()
            await asyncio.Event().wait()
        return self.pieces.pop(0)

    async def aclose(self) -> None:
        self.closed.set()


class Streams(Service):
    """A service whose `stream` returns this iterator."""

    def __init__(self, pieces: AsyncIterator[str]) -> None:
        super().__init__()
        self.iterator = pieces

    def stream(self, messages: list[Any], **arguments: Any) -> AsyncIterator[str]:
        return self.iterator


async def test_the_services_stream_is_closed_when_the_answer_is_left_early() -> None:
    pieces = Pieces("Hel", "lo")
    async with aclosing(answer(Streams(pieces))) as chunks:
        await anext(chunks)
        assert not pieces.closed.is_set()
    await asyncio.wait_for(pieces.closed.wait(), SECOND)


async def test_the_services_stream_is_closed_before_a_cancellation_goes_on() -> None:
    pieces = Pieces("Hel")
    task = asyncio.create_task(heard(Streams(pieces)))
    await asyncio.wait_for(pieces.waiting.wait(), SECOND)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pieces.closed.is_set()


async def test_a_cancelled_answer_cancels_the_service() -> None:
    service = Service("Hel", None)
    task = asyncio.create_task(heard(service))
    await asyncio.wait_for(service.waiting.wait(), SECOND)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.cancelled
    assert service.stream_closed.is_set()


async def test_an_iterator_that_cannot_be_closed_will_do() -> None:
    class Plain:
        pieces = iter(["Hel", "lo"])

        def __aiter__(self) -> Plain:
            return self

        async def __anext__(self) -> str:
            for piece in self.pieces:
                return piece
            raise StopAsyncIteration

    assert await heard(Streams(Plain())) == ["Hel", "lo"]


async def test_a_cancelled_reply_cancels_the_service() -> None:
    service = Service()
    task = asyncio.create_task(ServiceChat(service=service).ainvoke("Hi"))
    await asyncio.wait_for(service.waiting.wait(), SECOND)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.cancelled


# The service itself


def test_it_is_asynchronous_only() -> None:
    chat = ServiceChat(service=Service("Hello."))
    calls: list[Callable[[], Any]] = [lambda: chat.invoke("Hi"), lambda: list(chat.stream("Hi"))]
    for call in calls:
        with pytest.raises(NotImplementedError, match="use ainvoke or astream"):
            call()


async def test_the_service_stays_what_and_whose_it_was() -> None:
    service = says("Hello.")
    chat = ServiceChat(service=service)
    assert chat.service is service
    await chat.ainvoke("Hi")
    assert not service.closed


def test_a_service_is_not_shown_where_its_model_is() -> None:
    class Secretive(Service):
        def __repr__(self) -> str:
            return "key=secret"

    chat = ServiceChat(service=Secretive())
    assert "secret" not in f"{chat!r} {chat.model_dump()}"


@pytest.mark.parametrize("wrong", [None, "gpt", object(), types.SimpleNamespace(stream=print)])
def test_what_is_no_service_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(TypeError, match=f"chat and stream.* not be a {type(wrong).__name__}"):
        ServiceChat(service=wrong)


async def test_services_do_not_share_a_cache_that_is_set_for_all_models() -> None:
    set_llm_cache(InMemoryCache())
    try:
        replies = [await ServiceChat(service=says(text)).ainvoke("Hi") for text in ("one", "two")]
    finally:
        set_llm_cache(None)
    assert [reply.content for reply in replies] == ["one", "two"]


# A conversation over services


async def summary(context: ContextManager) -> str | None:
    found = (await context.snapshot("p"))["dialogue"]["summary"]
    return found["text"] if found else None


async def talk(context: ContextManager) -> None:
    """Record more than half of the dialogue budget, and see it compacted."""
    for number in range(6):
        await context.record_exchange("p", f"ask {number}", "x" * 700)
    await context.settled()


async def test_a_conversation_streams_what_a_service_streams(clock: Clock) -> None:
    service = Service("<think>Greet.</think>", "Hel", "lo.")
    context = ContextManager(ServiceChat(service=service), clock=clock)
    conversation = Conversation(ServiceChat(service=service), context=context, instructions="Be brief.")
    assert [piece async for piece in conversation.stream("p", "Hi")] == ["Hel", "lo."]
    assert await exchanges(context) == [("Hi", "Hello.")]
    ((method, messages, arguments),) = service.asked
    assert (method, arguments) == ("stream", {})
    assert [each.role for each in messages] == ["system", "user", "user"]
    assert messages[0].content.endswith("Be brief.")
    assert messages[2].content == "Hi"


async def test_an_answer_that_is_left_closes_the_services_stream_and_records_nothing(clock: Clock) -> None:
    pieces = Pieces("Hello, ")
    service = Streams(pieces)
    context = ContextManager(ServiceChat(service=service), clock=clock)
    conversation = Conversation(ServiceChat(service=service), context=context)
    async with aclosing(conversation.stream("p", "Hi")) as said:
        assert await asyncio.wait_for(anext(said), SECOND) == "Hello, "
        await asyncio.wait_for(pieces.waiting.wait(), SECOND)
        assert not pieces.closed.is_set()
    assert pieces.closed.is_set()
    assert await exchanges(context) == []


async def test_an_answer_of_a_service_that_says_nothing_is_empty(clock: Clock) -> None:
    context = ContextManager(ServiceChat(service=Service()), clock=clock)
    conversation = Conversation(ServiceChat(service=Service()), context=context)
    with pytest.raises(EmptyAnswerError):
        _ = [piece async for piece in conversation.stream("p", "Hi")]
    assert await exchanges(context) == []


async def test_a_conversation_with_a_service_that_cannot_stream_hides_its_reasoning(clock: Clock) -> None:
    service = says("Hello.", reasoning="Greet them.")
    service.capabilities.streaming = False
    context = ContextManager(ServiceChat(service=service), clock=clock)
    conversation = Conversation(ServiceChat(service=service), context=context)
    assert "".join([piece async for piece in conversation.stream("p", "Hi")]) == "Hello."
    assert await exchanges(context) == [("Hi", "Hello.")]


async def test_a_dialogue_is_compacted_by_chat_without_its_reasoning(clock: Clock) -> None:
    service = says("They counted.", reasoning="Six numbers.")
    context = ContextManager(ServiceChat(service=service), clock=clock)
    await talk(context)
    assert await summary(context) == "They counted."
    assert [request for request, _ in await exchanges(context)] == ["ask 5"]
    assert [(method, arguments) for method, _, arguments in service.asked] == [("chat", {})]


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "They cou", "finish_reason": "length"},
        {"content": None, "finish_reason": "length"},
        {"content": "", "reasoning": "Six numbers."},
    ],
)
async def test_a_summary_that_is_cut_off_or_only_thought_replaces_nothing(
    clock: Clock, fields: dict[str, Any]
) -> None:
    service = says(**fields)
    context = ContextManager(ServiceChat(service=service), clock=clock)
    await talk(context)
    assert set(service.methods()) == {"chat"}
    assert await summary(context) is None
    assert len(await exchanges(context)) == 6
