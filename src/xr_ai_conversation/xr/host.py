# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The one place that chooses: the XR SDK's own classes where they can be imported, and ours otherwise.

A runtime matches payloads by the identity of their class, so what looks alike does not do. The packages are
taken from v0.4 of the SDK on, which is the first to have `xr_ai_interaction`; older ones have other payloads.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

# the SDK's package of this payload has the name of ours, which stands in its place
from xr_ai_conversation.xr.payloads import ConversationContextUpdate


def there(package: str) -> bool:
    """Return whether the SDK's own classes are to be taken from one of its packages."""
    return find_spec("xr_ai_interaction") is not None and find_spec(package) is not None


if TYPE_CHECKING or not there("xr_ai_interaction"):
    from xr_ai_conversation.xr.payloads import (
        Interrupted,
        ParticipantJoined,
        ParticipantLeft,
        ResponseOutput,
        UserQuery,
    )
else:
    from xr_ai_interaction import Interrupted, ParticipantJoined, ParticipantLeft, ResponseOutput, UserQuery

if TYPE_CHECKING or not there("xr_ai_runtime"):
    from xr_ai_conversation.xr.runtime import (
        Agent,
        AgentRuntime,
        MessageMetadata,
        RuntimeClosedError,
        RuntimeContext,
        Topic,
        subscribe,
    )
else:
    from xr_ai_runtime import (
        Agent,
        AgentRuntime,
        MessageMetadata,
        RuntimeClosedError,
        RuntimeContext,
        Topic,
        subscribe,
    )

if TYPE_CHECKING or not there("xr_ai_routing"):
    from xr_ai_conversation.xr.routing import (
        Admission,
        AgentExchange,
        AgentTurn,
        DestinationResult,
        RoutableAgent,
        RoutingAid,
        RoutingTurnContext,
        current_turn_context,
    )
else:
    from xr_ai_routing import (
        Admission,
        AgentExchange,
        AgentTurn,
        DestinationResult,
        RoutableAgent,
        RoutingAid,
        RoutingTurnContext,
        current_turn_context,
    )

if TYPE_CHECKING or not there("xr_ai_models"):
    from xr_ai_conversation.xr.questions import DecisionQuestion
else:
    from xr_ai_models import DecisionQuestion

if TYPE_CHECKING or not there("xr_ai_voice"):
    VOICE_OUTPUT_TOPIC = Topic("voice.output", ResponseOutput, "none")
    """Where a voice layer listens for what it is to say."""
else:
    from xr_ai_voice import VOICE_OUTPUT_TOPIC

__all__ = [
    "VOICE_OUTPUT_TOPIC",
    "Admission",
    "Agent",
    "AgentExchange",
    "AgentRuntime",
    "AgentTurn",
    "ConversationContextUpdate",
    "DecisionQuestion",
    "DestinationResult",
    "Interrupted",
    "MessageMetadata",
    "ParticipantJoined",
    "ParticipantLeft",
    "ResponseOutput",
    "RoutableAgent",
    "RoutingAid",
    "RoutingTurnContext",
    "RuntimeClosedError",
    "RuntimeContext",
    "Topic",
    "UserQuery",
    "current_turn_context",
    "subscribe",
    "there",
]
