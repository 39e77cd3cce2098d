# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The graph in `langgraph dev`, the server behind LangGraph Studio, as docs/studio.md says: no key, no other network.

The graph is the one that langgraph.json names; the model is an endpoint on loopback.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from copy import deepcopy
from typing import Any

import pytest
from fakes.endpoint import Endpoint
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError
from served import STUDIO, Served, serving_studio

pytestmark = STUDIO

GRAPH = "conversation"
SENT = "sent.log"
AUDIT = """
import sys

def audit(event, args):
    if event in ("socket.getaddrinfo", "socket.connect", "socket.sendto"):
        where = args[0] if event == "socket.getaddrinfo" else args[1]
        host = where[0] if isinstance(where, tuple) else where
        if host not in ("127.0.0.1", "localhost", None) and not str(host).startswith("/"):
            with open({log!r}, "a") as log:
                print(event, where, file=log)
            raise OSError("another machine")

sys.addaudithook(audit)
"""
"""Makes whatever would go to another machine fail, and writes it down."""


@pytest.fixture(scope="module")
def server(endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("studio")
    (folder / "audit").mkdir()
    (folder / "audit" / "sitecustomize.py").write_text(AUDIT.format(log=str(folder / SENT)))
    with serving_studio(
        folder, OPENAI_MODEL="m", OPENAI_BASE_URL=endpoint.url, PYTHONPATH=str(folder / "audit")
    ) as found:
        yield found


@pytest.fixture
async def client(server: Served) -> AsyncIterator[LangGraphClient]:
    async with server.client as found:
        yield found


@pytest.fixture
async def thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


async def context(client: LangGraphClient, thread: str) -> Any:
    values: Any = (await client.threads.get_state(thread))["values"]
    return values["context"]


async def turn(client: LangGraphClient, thread: str, text: str, **options: Any) -> Any:
    return await client.runs.wait(thread, GRAPH, input={"request": text}, **options)


def requests(context: Any) -> list[str]:
    return [entry["request"] for entry in context["dialogue"]["entries"]]


async def test_the_schemas_say_what_can_be_typed_in(client: LangGraphClient) -> None:
    [assistant] = await client.assistants.search()
    schemas: Any = await client.assistants.get_schemas(assistant["assistant_id"])
    fields = schemas["input_schema"]["properties"]
    assert list(fields) == ["request", "messages", "topic", "text", "forget"]
    assert all(field["description"] for field in fields.values())
    assert "context" in schemas["state_schema"]["properties"]


async def test_the_drawing_shows_the_nodes_and_why_edges_are_taken(client: LangGraphClient) -> None:
    [assistant] = await client.assistants.search()
    drawn: Any = await client.assistants.get_graph(assistant["assistant_id"])
    names = [node["id"] for node in drawn["nodes"]]
    assert names == ["__start__", "answer", "record", "update", "compact", "clear", "__end__"]
    assert all(edge["data"] for edge in drawn["edges"])


async def test_an_answer_streams_and_its_compaction_does_not(client: LangGraphClient, thread: str) -> None:
    tokens, pieces, nodes = "", "", set[str]()
    for number in range(3):
        async for part in client.runs.stream(
            thread,
            GRAPH,
            input={"request": f"<{number}>" + "x" * 2_000},
            stream_mode=["messages-tuple", "custom", "updates"],
        ):
            if part.event == "messages":
                tokens += part.data[0]["content"]
            elif part.event == "custom":
                pieces += str(part.data)
            elif part.event == "updates":
                nodes |= part.data.keys()
    assert tokens == pieces == "".join(f"re <{number}>" + "x" * 2_000 for number in range(3))
    assert nodes == {"answer", "record", "compact"}
    assert (await context(client, thread))["dialogue"]["summary"]["text"] == "SUMMARY"


async def test_updates_and_forgetting_are_runs_of_their_own(
    client: LangGraphClient, thread: str, endpoint: Endpoint
) -> None:
    for topic, text in (("notes", "The pump is off."), ("camera", "a red chair")):
        await client.runs.wait(thread, GRAPH, input={"topic": topic, "text": text})
    await turn(client, thread, f"{thread} Which pump?")
    seen = endpoint.contexts[f"{thread} Which pump?"]
    assert "update> The pump is off." in seen
    assert "state> a red chair" in seen
    await client.runs.wait(thread, GRAPH, input={"forget": True})
    assert requests(await context(client, thread)) == []


async def test_an_input_that_mixes_is_refused_by_what_is_allowed(
    client: LangGraphClient, thread: str
) -> None:
    failed = await client.runs.wait(thread, GRAPH, input={"request": "x", "forget": True}, raise_error=False)
    assert "one of request, messages, topic and text, forget" in str(failed)
    assert (await turn(client, thread, "Hello"))["reply"] == "re Hello"


async def test_a_chat_front_end_sends_messages_and_finds_them_in_the_state(
    client: LangGraphClient, thread: str
) -> None:
    for number in range(2):
        asked: Any = {
            "type": "human",
            "content": [{"type": "text", "text": f"<{number}>"}],
            "id": f"ui-{number}",
        }
        values = [
            part.data
            async for part in client.runs.stream(
                thread, GRAPH, input={"messages": [asked]}, stream_mode="values"
            )
            if part.event == "values"
        ]
    state: Any = await client.threads.get_state(thread)
    shown = state["values"]["messages"]
    assert [message["content"] for message in shown] == ["<0>", "re <0>", "<1>", "re <1>"]
    assert [message["id"] for message in shown[::2]] == ["ui-0", "ui-1"]
    assert values[-1]["messages"] == shown
    assert [message["id"] for message in values[0]["messages"]][:2] == [one["id"] for one in shown[:2]]


async def test_an_edit_of_the_context_is_seen_by_the_next_answer_and_one_that_breaks_a_rule_is_refused(
    client: LangGraphClient, thread: str, endpoint: Endpoint
) -> None:
    await turn(client, thread, "Hello")
    before = await context(client, thread)
    bad = deepcopy(before)
    bad["dialogue"]["entries"][0]["time"] = "yesterday"
    with pytest.raises(BadRequestError, match=r"the edit is refused.*dialogue\.entries\.0.*date and time"):
        await client.threads.update_state(thread, {"context": bad})
    assert await context(client, thread) == before
    good = deepcopy(before)
    good["dialogue"]["entries"][0]["response"] = "CORRECTED"
    await client.threads.update_state(thread, {"context": good})
    await turn(client, thread, f"{thread} Again")
    assert "assistant> CORRECTED" in endpoint.contexts[f"{thread} Again"]


async def test_the_history_can_be_walked_and_a_fork_answers_as_of_then(
    client: LangGraphClient, thread: str, endpoint: Endpoint
) -> None:
    for number in range(3):
        await turn(client, thread, f"<{number}>")
    history: Any = await client.threads.get_history(thread, limit=50)
    ends = [state for state in history if not state["next"]]
    assert [requests(state["values"]["context"]) for state in ends] == [
        ["<0>", "<1>", "<2>"],
        ["<0>", "<1>"],
        ["<0>"],
    ]
    await turn(client, thread, f"{thread} fork", checkpoint_id=ends[-1]["checkpoint"]["checkpoint_id"])
    seen = endpoint.contexts[f"{thread} fork"]
    assert "user> <0>" in seen
    assert "user> <1>" not in seen
    assert requests(await context(client, thread)) == ["<0>", f"{thread} fork"]


async def test_runs_of_one_thread_that_are_sent_at_once_are_queued_and_nothing_is_lost(
    client: LangGraphClient, thread: str
) -> None:
    asked = [turn(client, thread, f"<{number}>", multitask_strategy="enqueue") for number in range(5)]
    notes = [
        client.runs.wait(
            thread, GRAPH, input={"topic": "notes", "text": f"[{number}]"}, multitask_strategy="enqueue"
        )
        for number in range(5)
    ]
    replies: Any = await asyncio.gather(*asked, *notes)
    assert [one["reply"] for one in replies[:5]] == [f"re <{number}>" for number in range(5)]
    found = await context(client, thread)
    assert sorted(requests(found)) == [f"<{number}>" for number in range(5)]
    assert sorted(note["text"] for note in found["topics"]["notes"]["entries"]) == [
        f"[{number}]" for number in range(5)
    ]


def test_nothing_was_sent_to_another_machine(server: Served) -> None:
    sent = server.log.parent / SENT
    assert not sent.exists(), sent.read_text()
