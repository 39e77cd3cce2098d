# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The payloads of the XR host: which pieces of a response can be, and whose classes are used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from xr_ai_conversation.xr import (
    VOICE_OUTPUT_TOPIC,
    ConversationContextUpdate,
    Interrupted,
    ParticipantJoined,
    ParticipantLeft,
    ResponseOutput,
    UserQuery,
)

CAN_BE: dict[str, dict[str, Any]] = {
    "a whole reply": {"kind": "reply", "request_id": "t", "text": "Hi"},
    "the first piece of a reply": {
        "kind": "reply", "request_id": "t", "response_id": "r", "text": "Hi", "final": False,
    },
    "an empty first piece": {"kind": "reply", "request_id": "t", "response_id": "r", "final": False},
    "an empty last piece": {"kind": "reply", "request_id": "t", "response_id": "r"},
    "a blank piece": {"kind": "reply", "request_id": "t", "response_id": "r", "text": " ", "final": False},
    "an update": {"kind": "update", "text": "Door open"},
    "an urgent update": {"kind": "update", "text": "Fire", "urgent": True},
    "an urgent streamed update": {
        "kind": "update", "text": "Fire", "urgent": True, "response_id": "r", "final": False,
    },
    "a withdrawal": {"kind": "withdraw"},
    "a time": {"kind": "update", "text": "x", "timestamp_us": 0},
}  # fmt: skip

CANNOT_BE: dict[str, dict[str, Any]] = {
    "no kind": {"text": "Hi"},
    "an unknown kind": {"kind": "question", "text": "Hi"},
    "a reply to nothing": {"kind": "reply", "text": "Hi"},
    "a reply to an empty id": {"kind": "reply", "request_id": "", "text": "Hi"},
    "an update to a request": {"kind": "update", "request_id": "t", "text": "Hi"},
    "a withdrawal of a request": {"kind": "withdraw", "request_id": "t"},
    "an urgent reply": {"kind": "reply", "request_id": "t", "text": "Hi", "urgent": True},
    "an urgent withdrawal": {"kind": "withdraw", "urgent": True},
    "an open piece without a response": {"kind": "reply", "request_id": "t", "text": "Hi", "final": False},
    "a reply without text": {"kind": "reply", "request_id": "t"},
    "a reply of blanks": {"kind": "reply", "request_id": "t", "text": " \n"},
    "an update without text": {"kind": "update"},
    "an urgent empty last piece": {"kind": "update", "response_id": "r", "urgent": True},
    "a withdrawal with text": {"kind": "withdraw", "text": "Hi"},
    "a withdrawal of a response": {"kind": "withdraw", "response_id": "r"},
    "a withdrawal that goes on": {"kind": "withdraw", "final": False},
    "an empty response id": {"kind": "update", "response_id": "", "text": "Hi"},
    "a time before 1970": {"kind": "update", "text": "Hi", "timestamp_us": -1},
    "a field that is not declared": {"kind": "update", "text": "Hi", "sequence": 1},
}


@pytest.mark.parametrize("name", CAN_BE)
def test_a_response_output_can_be(name: str) -> None:
    given = CAN_BE[name]
    assert ResponseOutput(**given).model_dump(exclude_unset=True) == given


@pytest.mark.parametrize("name", CANNOT_BE)
def test_a_response_output_cannot_be(name: str) -> None:
    with pytest.raises(ValidationError):
        ResponseOutput(**CANNOT_BE[name])


def test_a_payload_is_not_changed_once_it_is_made() -> None:
    output = ResponseOutput(kind="update", text="Hi")
    with pytest.raises(ValidationError, match="frozen"):
        output.text = "Bye"
    assert output.text == "Hi"


def test_a_context_update_is_a_text_and_nothing_else() -> None:
    assert ConversationContextUpdate(text="Door open").text == "Door open"
    for wrong in ({}, {"text": ""}, {"text": "x", "participant_id": "p"}):
        with pytest.raises(ValidationError):
            ConversationContextUpdate.model_validate(wrong)


def test_a_query_is_a_text_with_perhaps_a_time_and_notices_are_empty() -> None:
    assert UserQuery(text="Hi", timestamp_us=3).timestamp_us == 3
    with pytest.raises(ValidationError):
        UserQuery(text="")
    for notice in (Interrupted, ParticipantJoined, ParticipantLeft):
        assert notice().model_dump() == {}
        with pytest.raises(ValidationError):
            notice.model_validate({"participant_id": "p"})


def test_the_voice_topic_carries_response_outputs() -> None:
    assert VOICE_OUTPUT_TOPIC.message_type is ResponseOutput


SDK = {
    "xr_ai_interaction": """
        from pydantic import BaseModel
        class ResponseOutput(BaseModel):
            kind: str; text: str = ""; final: bool = True; request_id: str | None = None
        class UserQuery(BaseModel): text: str; timestamp_us: int | None = None
        class Interrupted(BaseModel): pass
        class ParticipantJoined(BaseModel): pass
        class ParticipantLeft(BaseModel): pass
    """,
    "xr_ai_runtime": """
        from collections import namedtuple
        class Agent: pass
        class AgentRuntime: pass
        class MessageMetadata: pass
        class RuntimeClosedError(RuntimeError): pass
        class RuntimeContext: pass
        Topic = namedtuple("Topic", "name message_type")
        def subscribe(topic): return lambda method: method
    """,
    "xr_ai_voice": """
        from xr_ai_interaction import ResponseOutput
        from xr_ai_runtime import Topic
        VOICE_OUTPUT_TOPIC = Topic("theirs", ResponseOutput)
    """,
    "xr_ai_routing": """
        class Admission: pass
        class AgentExchange: pass
        class AgentRouter: pass
        class AgentTurn: pass
        class DestinationResult: pass
        class RoutableAgent: pass
        class RoutingAid: pass
        class RoutingTurnContext: pass
        def current_turn_context(): pass
    """,
}


def homes(tmp_path: Path, *packages: str) -> list[str]:
    """Return where the classes come from, in a process in which these packages of an SDK are installed."""
    for package in packages:
        lines = SDK[package].splitlines()
        (tmp_path / f"{package}.py").write_text("\n".join(line[8:] for line in lines))
    code = (
        "from xr_ai_conversation import xr\n"
        "print(xr.ResponseOutput.__module__, xr.UserQuery.__module__, xr.AgentRuntime.__module__, "
        "xr.RuntimeContext.__module__, xr.VOICE_OUTPUT_TOPIC.name, "
        "xr.VOICE_OUTPUT_TOPIC.message_type is xr.ResponseOutput, "
        "xr.AgentRouter.__module__, xr.AgentTurn.__module__)"
    )
    run = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return subprocess.run(run, check=True, capture_output=True, text=True, env=environment).stdout.split()


def test_without_the_sdk_the_classes_are_ours(tmp_path: Path) -> None:
    ours = "xr_ai_conversation.xr."
    assert homes(tmp_path) == [
        f"{ours}payloads", f"{ours}payloads", f"{ours}runtime", f"{ours}runtime", "voice.output", "True",
        f"{ours}router", f"{ours}routing",
    ]  # fmt: skip


def test_with_the_sdk_the_classes_are_those_of_its_packages(tmp_path: Path) -> None:
    assert homes(tmp_path, *SDK) == [
        "xr_ai_interaction", "xr_ai_interaction", "xr_ai_runtime", "xr_ai_runtime", "theirs", "True",
        "xr_ai_routing", "xr_ai_routing",
    ]  # fmt: skip


def test_an_sdk_from_before_the_response_outputs_is_left_alone(tmp_path: Path) -> None:
    found = homes(tmp_path, "xr_ai_runtime")
    assert found[0] == "xr_ai_conversation.xr.payloads"
    assert found[2] == "xr_ai_conversation.xr.runtime"
