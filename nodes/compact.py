# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that rolls the oldest entries of a section into its summary, one request a run."""

from __future__ import annotations

import logging
from collections.abc import Callable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from xr_ai_conversation.nodes.message import reply_of
from xr_ai_conversation.nodes.step import Step
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.compaction import (
    CompactionPrompts,
    SummaryRequest,
    compaction,
    due,
    next_job,
    takeable,
)
from xr_ai_conversation.state.context import ParticipantContext, load, section
from xr_ai_conversation.state.operations import Compact
from xr_ai_conversation.state.participant import Changes, ParticipantState
from xr_ai_conversation.state.reply import Rejection, Reply

_LOG = logging.getLogger(__name__)

_HIDDEN: RunnableConfig = {"tags": ["nostream"], "run_name": "summary request"}
"""Keeps the tokens of a summary out of the token stream of any graph around; a trace shows its name."""


def compact_node(
    llm: BaseChatModel, budgets: Budgets, prompts: CompactionPrompts, new_id: Callable[[], str]
) -> Step[ParticipantState, Changes]:
    """Return the node that makes one compaction request and returns the operation that comes of it.

    It compacts the section `topic` up to the entry `until`, or, if that is not given, the first section that is
    due. Whatever goes wrong with the model changes nothing and is named in `rejected`.

    Args:
        llm: Any chat model; it is called with its own defaults.
        budgets: Of the sections and of a request.
        prompts: What the model is told to keep.
        new_id: Makes the id of a summary.
    """

    def compact(state: ParticipantState) -> Changes:
        work = _Compaction(state, budgets, prompts, new_id)
        while work.messages:
            try:
                message = llm.invoke(work.messages, _HIDDEN)
            except Exception as error:  # noqa: BLE001 - whatever a model may raise, what it was to summarise stays
                work.failed(error)
            else:
                work.take(reply_of(message))
        return work.changes

    async def acompact(state: ParticipantState) -> Changes:
        work = _Compaction(state, budgets, prompts, new_id)
        while work.messages:
            try:
                message = await llm.ainvoke(work.messages, _HIDDEN)
            except Exception as error:  # noqa: BLE001 - as above
                work.failed(error)
            else:
                work.take(reply_of(message))
        return work.changes

    return Step(compact, acompact)


class _Compaction:
    """One compaction while it is made: it says what to ask the model next, and is told what came of it."""

    def __init__(
        self, state: ParticipantState, budgets: Budgets, prompts: CompactionPrompts, new_id: Callable[[], str]
    ) -> None:
        context = load(state.get("context"))
        self._topic, self._until = _wanted(state, context, budgets)
        job = next_job(context, self._topic, budgets, self._until) if self._until else None
        self.changes: Changes = {"context": [], "until": "", "rejected": ""}
        """What the node returns, when there is nothing more to ask."""
        self.messages: list[BaseMessage] = []
        """What to ask next; empty when it is done."""
        if job is not None:
            self._last = job.last
            self._steps = compaction(job, prompts, new_id())
            self._ask(next(self._steps))

    def take(self, reply: Reply) -> None:
        try:
            self._ask(self._steps.send(reply))
        except StopIteration as end:
            self._end(end.value)

    def failed(self, error: Exception) -> None:
        fields = {"error": type(error).__name__}
        _LOG.warning("a compaction request failed with %(error)s", fields, extra=fields)
        self.take(Reply("", finish="error"))

    def _ask(self, request: SummaryRequest) -> None:
        self.messages = [SystemMessage(request.system), HumanMessage(request.user)]

    def _end(self, outcome: Compact | Rejection) -> None:
        self.messages = []
        if isinstance(outcome, Rejection):
            self.changes["rejected"] = outcome.value
        else:
            until = "" if self._last else self._until
            self.changes = {"context": [outcome], "topic": self._topic, "until": until, "rejected": ""}


def _wanted(state: ParticipantState, context: ParticipantContext, budgets: Budgets) -> tuple[str | None, str]:
    if until := state.get("until"):
        return state.get("topic"), until
    for topic in budgets.sections():
        if due(context, topic, budgets):
            return topic, takeable(section(context, topic), topic)[-1]["id"]
    return None, ""


__all__ = ["compact_node"]
