# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The graph in a chain, between a prompt and a parser: one call, a batch of two participants, and events.

uv run python examples/chain.py
"""

from __future__ import annotations

import asyncio
from operator import attrgetter, itemgetter
from typing import Any

from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver

from xr_ai_conversation import build_graph
from xr_ai_conversation.models import EmbeddedModel

ANN: RunnableConfig = {"configurable": {"thread_id": "ann"}}
BOB: RunnableConfig = {"configurable": {"thread_id": "bob"}}


async def stream(chain: Runnable[dict[str, str], str]) -> None:
    """Print the model's tokens, and the nodes as they end."""
    async for event in chain.astream_events({"thing": "screwdriver"}, ANN):
        if event["event"] == "on_chat_model_stream":
            print(event["data"]["chunk"].text, end="", flush=True)
        elif event["event"] == "on_chain_end" and event["name"] in ("answer", "record"):
            print(f" [{event['name']}]", end="")
    print()


def main() -> None:
    """Run the chain in each way; each thread has a memory of its own."""
    with EmbeddedModel() as model:
        builder = build_graph(model.answers, prompts=model.prompts, incremental_context_topics=["notes"])
        graph: Any = builder.compile(checkpointer=InMemorySaver())
        prompt = ChatPromptTemplate([("human", "Where is the {thing}?")])
        # a chain that is streamed would get from the graph itself what each node wrote, not its output
        answer = RunnableLambda(graph.invoke, graph.ainvoke)
        chain = prompt | {"messages": attrgetter("messages")} | answer | itemgetter("reply")

        graph.invoke({"topic": "notes", "text": "The spare key is in drawer seven."}, ANN)
        graph.invoke({"topic": "notes", "text": "The spare key is in drawer two."}, BOB)
        print(chain.invoke({"thing": "spare key"}, ANN))
        print(asyncio.run(chain.abatch([{"thing": "spare key"}] * 2, [ANN, BOB])))
        graph.invoke({"topic": "notes", "text": "The screwdriver is in the kitchen."}, ANN)
        asyncio.run(stream(chain))


if __name__ == "__main__":
    main()
