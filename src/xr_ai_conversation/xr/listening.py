# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Subscribers to topics that are known only when an agent is made, and replies in answer to a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MethodType
from typing import Any, TypeAlias

from pydantic import BaseModel

from xr_ai_conversation.xr.host import Agent, ResponseOutput, RuntimeContext, Topic, subscribe
from xr_ai_conversation.xr.routing import AgentTurn
from xr_ai_conversation.xr.turns import Output

Receive: TypeAlias = Callable[[Any, RuntimeContext], Awaitable[None]]
"""Takes a message of a topic, and what is known of it."""


def subscriber(agent: Agent, topic: Topic[Any], receive: Receive) -> MethodType:
    """Return a method that subscribes to a topic; runtimes find it as an attribute of the agent.

    Args:
        agent: Whose method it is.
        topic: What it subscribes to.
        receive: What it does.
    """

    @subscribe(topic)
    async def receiver(agent: Agent, message: BaseModel, context: RuntimeContext) -> None:
        await receive(message, context)

    # a runtime compares the annotation with the topic's payload class
    receiver.__annotations__["message"] = topic.message_type
    return MethodType(receiver, agent)


def replies(context: RuntimeContext, topic: Topic[ResponseOutput]) -> Output:
    """Return a function that publishes texts as replies to a turn.

    Args:
        context: Of the message that the turn began with.
        topic: Where they are published.
    """

    async def reply(turn: AgentTurn, route: str, text: str) -> None:
        output = ResponseOutput(
            kind="reply", text=text, request_id=turn.turn_id, timestamp_us=turn.timestamp_us
        )
        await context.publish(topic, output, participant_id=turn.participant_id)

    return reply


__all__ = ["Receive", "replies", "subscriber"]
