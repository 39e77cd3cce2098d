# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The agent inside an application's own graph, whose threads are sessions: what it remembers is of the customer.

uv run python examples/parent_graph.py
"""

import asyncio
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from xr_ai_conversation import build_graph
from xr_ai_conversation.models import EmbeddedModel

PETS = {"ann": "The dog is called Biscuit.", "bob": "The dog is called Max."}
SESSIONS = {"monday": "ann", "tuesday": "bob", "friday": "ann"}


class Session(MessagesState):
    """The application's state: the messages of one session, and whose it is."""

    customer: str


def thread(name: str) -> dict[str, Any]:
    """Return a configuration of its own for a graph's thread."""
    return {"configurable": {"thread_id": name}}


async def main() -> None:
    """Serve two customers in three sessions."""
    async with EmbeddedModel() as model:
        builder = build_graph(model.answers, prompts=model.prompts, summary_context_topics=["pets"])
        agent: Any = builder.compile(checkpointer=InMemorySaver())

        async def look_up(state: Session) -> None:
            await agent.ainvoke({"topic": "pets", "text": PETS[state["customer"]]}, thread(state["customer"]))

        async def talk(state: Session) -> dict[str, Any]:
            found = await agent.ainvoke({"messages": state["messages"]}, thread(state["customer"]))
            return {"messages": found["messages"][-1:]}

        application = StateGraph(Session).add_sequence([look_up, talk]).add_edge(START, "look_up")
        graph: Any = application.compile(checkpointer=InMemorySaver())
        for session, customer in SESSIONS.items():
            asked = {"messages": "What is the name of the dog?", "customer": customer}
            print(f"{session}, {customer}: ", end="")
            parts = graph.astream(asked, thread(session), stream_mode="messages", subgraphs=True)
            async for _, (message, _) in parts:
                print(message.text, end="", flush=True)
            known = (await agent.aget_state(thread(customer))).values["messages"]
            print(f"\n[{len(known)} messages are remembered of {customer}]")


if __name__ == "__main__":
    asyncio.run(main())
