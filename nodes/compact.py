# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The node that rolls the oldest entries of a section into its summary, one request a run."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from xr_ai_conversation.nodes.message import reply_of
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.compaction import (
    CompactionPrompts,
    Job,
    SummaryRequest,
    compaction,
    due,
    next_job,
    takeable,
)
from xr_ai_conversation.state.context import ParticipantContext, load, section
from xr_ai_conversation.state.operations import Compact
from xr_ai_conversation.state.participant import LiveState, ParticipantState
from xr_ai_conversation.state.reply import Rejection, Reply

_LOG = logging.getLogger(__name__)

_HIDDEN: RunnableConfig = {"tags": ["nostream"], "run_name": "summary request"}
"""Keeps the tokens of a summary out of the token stream of any graph around; a trace shows its name."""


def compact_node(
    llm: BaseChatModel, budgets: Budgets, prompts: CompactionPrompts, new_id: Callable[[], str]
) -> Callable[[ParticipantState], Awaitable[LiveState]]:
    """Return the node that makes one compaction request and returns the operation that comes of it.

    It compacts the section `topic` up to the entry `until`, or, if that is not given, the first section that is
    due. Whatever goes wrong with the model changes nothing and is named in `rejected`.

    Args:
        llm: Any chat model; it is called with its own defaults.
        budgets: Of the sections and of a request.
        prompts: What the model is told to keep.
        new_id: Makes the id of a summary.
    """

    async def compact(state: ParticipantState) -> LiveState:
        context = load(state.get("context"))
        topic, until = _wanted(state, context, budgets)
        job = next_job(context, topic, budgets, until) if until else None
        if job is None:
            return {"context": [], "until": "", "rejected": ""}
        outcome = await _request(llm, job, prompts, new_id())
        if isinstance(outcome, Rejection):
            return {"context": [], "until": "", "rejected": outcome.value}
        return {"context": [outcome], "topic": topic, "until": "" if job.last else until, "rejected": ""}

    return compact


def _wanted(state: ParticipantState, context: ParticipantContext, budgets: Budgets) -> tuple[str | None, str]:
    if until := state.get("until"):
        return state.get("topic"), until
    for topic in budgets.sections():
        if due(context, topic, budgets):
            return topic, takeable(section(context, topic), topic)[-1]["id"]
    return None, ""


async def _request(
    llm: BaseChatModel, job: Job, prompts: CompactionPrompts, summary_id: str
) -> Compact | Rejection:
    steps = compaction(job, prompts, summary_id)
    try:
        request = next(steps)
        while True:
            request = steps.send(await _reply(llm, request))
    except StopIteration as end:
        outcome: Compact | Rejection = end.value
        return outcome


async def _reply(llm: BaseChatModel, request: SummaryRequest) -> Reply:
    messages = [SystemMessage(request.system), HumanMessage(request.user)]
    try:
        return reply_of(await llm.ainvoke(messages, _HIDDEN))
    except Exception as error:  # noqa: BLE001 - whatever a model may raise, what it was to summarise stays
        _LOG.warning("a compaction request failed with %s", type(error).__name__)
        return Reply("", finish="error")


__all__ = ["compact_node"]
