# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The XR host's contract: its payloads, topics, runtime and router, or a small local one of each."""

from typing import TYPE_CHECKING

from xr_ai_conversation.xr.decisions import ChatDecisions
from xr_ai_conversation.xr.host import (
    VOICE_OUTPUT_TOPIC,
    Admission,
    Agent,
    AgentExchange,
    AgentRuntime,
    AgentTurn,
    ConversationContextUpdate,
    DecisionQuestion,
    DestinationResult,
    Interrupted,
    MessageMetadata,
    ParticipantJoined,
    ParticipantLeft,
    ResponseOutput,
    RoutableAgent,
    RoutingAid,
    RoutingTurnContext,
    RuntimeClosedError,
    RuntimeContext,
    Topic,
    UserQuery,
    current_turn_context,
    subscribe,
    there,
)
from xr_ai_conversation.xr.questions import DecisionAnswer, DecisionResult, DecisionService
from xr_ai_conversation.xr.routing import NoRouteError, Started, TurnResult

# beside `host`, since our router is made of what that chooses
if TYPE_CHECKING or not there("xr_ai_routing"):
    from xr_ai_conversation.xr.router import AgentRouter
else:
    from xr_ai_routing import AgentRouter

__all__ = [
    "VOICE_OUTPUT_TOPIC",
    "Admission",
    "Agent",
    "AgentExchange",
    "AgentRouter",
    "AgentRuntime",
    "AgentTurn",
    "ChatDecisions",
    "ConversationContextUpdate",
    "DecisionAnswer",
    "DecisionQuestion",
    "DecisionResult",
    "DecisionService",
    "DestinationResult",
    "Interrupted",
    "MessageMetadata",
    "NoRouteError",
    "ParticipantJoined",
    "ParticipantLeft",
    "ResponseOutput",
    "RoutableAgent",
    "RoutingAid",
    "RoutingTurnContext",
    "RuntimeClosedError",
    "RuntimeContext",
    "Started",
    "Topic",
    "TurnResult",
    "UserQuery",
    "current_turn_context",
    "subscribe",
]
