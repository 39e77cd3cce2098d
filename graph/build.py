# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The graph, in its two shapes: whole, over a participant's thread, and one node live, from a snapshot."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.channels import EphemeralValue
from langgraph.graph import END, START, StateGraph
from langgraph.pregel import NodeBuilder, Pregel

from xr_ai_conversation.graph.system import system_text
from xr_ai_conversation.nodes.answer import answer_node
from xr_ai_conversation.nodes.clear import clear_node
from xr_ai_conversation.nodes.compact import compact_node
from xr_ai_conversation.nodes.record import record_node
from xr_ai_conversation.nodes.step import Step
from xr_ai_conversation.nodes.update import update_node
from xr_ai_conversation.state.budgets import Budgets
from xr_ai_conversation.state.compaction import CompactionPrompts, due
from xr_ai_conversation.state.context import load
from xr_ai_conversation.state.participant import (
    Changes,
    ConversationInput,
    ConversationOutput,
    NodeInput,
    ParticipantState,
    PendingState,
    Wanted,
    wanted,
)

WholeGraph: TypeAlias = StateGraph[PendingState, None, ConversationInput, ConversationOutput]
LiveGraph: TypeAlias = Pregel[NodeInput, None, NodeInput, Changes]
NodeName: TypeAlias = Literal["answer", "record", "update", "compact", "clear"]

_ENTRANCES: Mapping[Wanted, tuple[str, NodeName]] = {
    "request": ("request or messages", "answer"),
    "messages": ("request or messages", "answer"),
    "topic and text": ("topic and text", "update"),
    "forget": ("forget", "clear"),
    "nothing": ("nothing", "compact"),
}
"""What each input is called on the edge that it takes, and where that leads."""
_DUE, _DONE = "a section is due", "nothing is due"


def system_clock() -> datetime:
    """Return the current time in the local zone."""
    return datetime.now().astimezone()


def new_id() -> str:
    """Return a new id for an entry or a summary."""
    return secrets.token_urlsafe(9)


def check_chat_model(llm: object, name: str = "llm") -> None:
    """Raise TypeError if an argument, of this name, is no chat model of LangChain."""
    if not isinstance(llm, BaseChatModel):
        raise TypeError(f"{name} must be a LangChain chat model, got {type(llm).__name__}")


def build_graph(
    llm: BaseChatModel,
    *,
    summary_llm: BaseChatModel | None = None,
    instructions: str = "",
    system_prompt: str | None = None,
    summary_context_topics: Iterable[str] = (),
    incremental_context_topics: Iterable[str] = (),
    dialogue_budget_bytes: int = 8_000,
    topic_budget_bytes: int | Mapping[str, int] = 4_000,
    compaction_input_budget_bytes: int = 12_000,
    prompts: CompactionPrompts = CompactionPrompts(),  # noqa: B008 - it is frozen
    clock: Callable[[], datetime] = system_clock,
) -> WholeGraph:
    """Return the builder of the whole graph, uncompiled: answer, record, update, compact and clear.

    One thread is one participant. A run is given one of `request`, `messages`, `topic` with `text`, or `forget`; with
    none of them it compacts what is due. Another input is refused with a ValueError, before anything is changed. Runs
    on one thread must not overlap, as a server that queues them sees to; `ContextManager` serves those that must.
    Synchronous runs need a synchronous saver.

    Args:
        llm: Any chat model; it answers.
        summary_llm: The one that summarises; None is `llm`. Of an `EmbeddedModel`, give `summaries`.
        instructions: The application's instructions, after the system prompt.
        system_prompt: Replaces the default system prompt; None keeps it.
        summary_context_topics: Names of the topics whose updates replace their state.
        incremental_context_topics: Names of the topics whose updates append and are compacted.
        dialogue_budget_bytes: UTF-8 bytes that completed dialogue may take in a prompt.
        topic_budget_bytes: The same of each topic, or a mapping with a value for every configured topic.
        compaction_input_budget_bytes: UTF-8 bytes of the records in one compaction request.
        prompts: What the model is told to keep when it compacts.
        clock: Returns the current time, with its zone.

    Raises:
        TypeError: An argument is of the wrong type.
        ValueError: Topics or budgets cannot be; the message says which, and what is allowed.
    """
    summary_llm = llm if summary_llm is None else summary_llm
    check_chat_model(llm)
    check_chat_model(summary_llm, "summary_llm")
    budgets = Budgets.of(
        summary_topics=summary_context_topics,
        incremental_topics=incremental_context_topics,
        dialogue_bytes=dialogue_budget_bytes,
        topic_bytes=topic_budget_bytes,
        compaction_input_bytes=compaction_input_budget_bytes,
    )
    return whole_graph(llm, summary_llm, system_text(system_prompt, instructions), budgets, prompts, clock)


def whole_graph(
    llm: BaseChatModel,
    summary_llm: BaseChatModel,
    system: str,
    budgets: Budgets,
    prompts: CompactionPrompts,
    clock: Callable[[], datetime],
) -> WholeGraph:
    """Return the builder of the whole graph from checked parts; `build_graph` says what they are."""
    graph: WholeGraph = StateGraph(
        PendingState, input_schema=ConversationInput, output_schema=ConversationOutput
    )
    nodes: dict[NodeName, Any] = {  # langgraph's node protocols do not take a state that is a supertype
        "answer": answer_node(llm, system, budgets, clock),
        "record": record_node(new_id),
        "update": update_node(budgets, clock, new_id),
        "compact": compact_node(summary_llm, budgets, prompts, new_id),
        "clear": clear_node(),
    }
    for name, node in nodes.items():
        graph.add_node(name, node, input_schema=ParticipantState)

    def any_due(state: ParticipantState) -> bool:
        context = load(state.get("context"))
        return any(due(context, topic, budgets) for topic in budgets.sections())

    def what_is_due(state: ParticipantState) -> str:
        """Compact after what a node has changed; a commit from outside in a node's place ends here."""
        rejected = state.get("rejected", "a commit from outside")
        return _DUE if not rejected and (state.get("until") or any_due(state)) else _DONE

    # The graph reads the state to choose an edge, even where there is but one. So an edit from outside, as whichever
    # node it may come, is refused before anything of it is stored.
    choices: list[tuple[str, Step[Any, str], Mapping[str, str]]] = [
        (START, _Entrance(), dict(_ENTRANCES.values())),
        ("answer", Step(lambda _: "answered"), {"answered": "record"}),
        ("record", Step(what_is_due), {_DUE: "compact", _DONE: END}),
        ("update", Step(what_is_due), {_DUE: "compact", _DONE: END}),
        ("compact", Step(what_is_due), {_DUE: "compact", _DONE: END}),
        ("clear", Step(lambda _: "forgotten"), {"forgotten": END}),
    ]
    for source, choice, ends in choices:
        graph.add_conditional_edges(source, choice, {label: end for label, end in ends.items()})
    return graph


class _Entrance(Step[Mapping[str, Any], str]):
    """The choice of a run's first edge, and the refusal of a run of which nothing would last.

    In a node of another graph that graph's saver is used, whatever this one was compiled with, and a namespace of that
    one call, which no later call will find.
    """

    def __init__(self) -> None:
        super().__init__(lambda given: _ENTRANCES[wanted(given)][0])

    def invoke(self, input: Mapping[str, Any], config: RunnableConfig | None = None, **kwargs: Any) -> str:
        namespace = (config or {}).get("configurable", {}).get("checkpoint_ns", "")
        if ":" in namespace.rpartition("|")[0]:
            raise ValueError(
                "this graph was run inside a node of another graph as a part of that one call, so nothing of it would be "
                'remembered: run it with a configuration of its own, {"configurable": {"thread_id": ...}}, and a saver of '
                "its own, or compile it with checkpointer=True, which keeps it in the other graph's thread"
            )
        return super().invoke(input)


def live_graph(name: NodeName, node: Any) -> LiveGraph:  # Any: as in `whole_graph`
    """Return a graph of one node without a saver: it is given a snapshot, and returns what the node returns.

    It runs in one step, where a StateGraph takes one more to spread its input over a channel for each key.

    Args:
        name: The node's name, as in the whole graph.
        node: The same function as there.
    """
    return Pregel(
        nodes={name: NodeBuilder().subscribe_only("given").do(node).write_to("changes")},
        channels={"given": EphemeralValue(dict), "changes": EphemeralValue(dict)},
        input_channels="given",
        output_channels="changes",
        checkpointer=False,
    )


__all__ = [
    "LiveGraph",
    "NodeName",
    "WholeGraph",
    "build_graph",
    "check_chat_model",
    "live_graph",
    "new_id",
    "system_clock",
    "whole_graph",
]
