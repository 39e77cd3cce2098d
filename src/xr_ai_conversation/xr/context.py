# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The context manager of an XR host: what is published on its topics comes in by itself."""

from __future__ import annotations

from functools import partial

from xr_ai_conversation.graph.manager import BaseContextManager
from xr_ai_conversation.state.times import from_microseconds
from xr_ai_conversation.xr.host import Agent, ConversationContextUpdate, RuntimeContext, Topic
from xr_ai_conversation.xr.listening import subscriber


class ContextManager(BaseContextManager):
    """Keeps what each participant said, the answers, and what is published about them, within byte budgets.

    The arguments are those of `BaseContextManager`; on top of it, the manager has a subscriber for an agent runtime.
    """

    def subscriber(self) -> Agent:
        """Return an agent that takes in what is published on the configured topics.

        Register it with the runtime that delivers the updates, before that is started:
        `runtime.register("context", context.subscriber())`. Updates are `ConversationContextUpdate`s about the
        participant of the message; a publisher waits until its update is stored, and for no model. An update
        without a participant is a `ValueError` to its publisher.
        """
        return _Subscriber(self)


class _Subscriber(Agent):
    """Has one subscribing method for each topic of a manager."""

    def __init__(self, manager: ContextManager) -> None:
        super().__init__()
        self._manager = manager
        for number, name in enumerate((*manager.budgets.summary, *manager.budgets.incremental)):
            topic = Topic(name, ConversationContextUpdate)
            setattr(self, f"_on_{number}", subscriber(self, topic, partial(self._take, name)))

    async def _take(self, topic: str, update: ConversationContextUpdate, context: RuntimeContext) -> None:
        participant_id = context.metadata.participant_id
        if participant_id is None:
            raise ValueError(f"an update on {topic!r} needs a participant_id, got None")
        published = from_microseconds(context.metadata.timestamp_us)
        await self._manager.update(participant_id, topic, update.text, timestamp=published)


__all__ = ["ContextManager"]
