# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The graph over a participant's thread: its nodes as they run, its history, a fork, and a compaction.

uv run python examples/thread.py
"""

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from xr_ai_conversation import build_graph
from xr_ai_conversation.models import EmbeddedModel

ANN: RunnableConfig = {"configurable": {"thread_id": "ann"}}
NOTES = ("The lamp in the hall is broken.", "The glass comes on Friday.", "Pump two leaks.")
SIGHTS = ("The spare key is in drawer seven.", "The spare key is on the table.")


async def run(graph: Any, config: RunnableConfig, **given: str) -> None:
    """Print what a run is given, its answer piece by piece, and the nodes that ran."""
    nodes: list[str] = []
    print(*given.values(), end=" ")
    async for mode, part in graph.astream(given, config, stream_mode=["custom", "updates"]):
        if mode == "custom":
            print(part, end="", flush=True)
        else:
            nodes += part
    print(f" [{', '.join(nodes)}]")


async def main() -> None:
    """Ask where the key is, ask again as of before it was moved, and publish until notes are compacted."""
    async with EmbeddedModel() as model:
        builder = build_graph(
            model.answers,
            prompts=model.prompts,
            incremental_context_topics=["notes"],
            summary_context_topics=["camera"],
            topic_budget_bytes=400,
        )
        graph = builder.compile(checkpointer=InMemorySaver())
        for sight in SIGHTS:
            await run(graph, ANN, topic="camera", text=sight)
        await run(graph, ANN, request="Where is the spare key?")

        past = [state async for state in graph.aget_state_history(ANN) if not state.next]
        for number, state in enumerate(past):
            seen = state.values["context"]["states"].values()
            print(f"[{number} runs ago it had seen: {' '.join(each['text'] for each in seen)}]")
        await run(graph, past[2].config, request="Where is the spare key?")
        for note in NOTES:
            await run(graph, ANN, topic="notes", text=note)


if __name__ == "__main__":
    asyncio.run(main())
