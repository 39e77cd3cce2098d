# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A LangChain agent that remembers Ann: what she said, what others publish about her, and over a restart.

uv run python examples/agent_memory.py

It runs on the embedded model, which cannot call tools; with another model, give `create_agent` its tools.
"""

from __future__ import annotations

import asyncio
from tempfile import TemporaryDirectory
from typing import Any

from langchain.agents import create_agent

from xr_ai_conversation import ContextManager, ConversationMiddleware, open_saver
from xr_ai_conversation.models import EmbeddedModel

PROMPT = (
    "You are a helpful assistant who holds a spoken conversation. Answer the last message briefly and to the point, from "
    "what you know and from the recorded context before it."
)
ANN: Any = {"configurable": {"thread_id": "ann"}}


async def visit(model: EmbeddedModel, database: str, *questions: str, note: str = "") -> None:
    """Serve Ann, as a process of its own would; her agent has no checkpointer, and needs none to remember."""
    async with (
        open_saver(database) as saver,
        ContextManager(
            model.summaries, prompts=model.prompts, incremental_context_topics=["notes"], checkpointer=saver
        ) as context,
    ):
        agent: Any = create_agent(
            model.answers, system_prompt=PROMPT, middleware=[ConversationMiddleware(context)]
        )
        if note:
            await context.update("ann", "notes", note)
        for question in questions:
            print(f"ann: {question}\nagent: ", end="")
            async for chunk, _ in agent.astream({"messages": question}, ANN, stream_mode="messages"):
                print(chunk.text, end="", flush=True)
            print()
        print(f"[{len(await context.blocks('ann'))} blocks of context]")


async def main() -> None:
    """Serve Ann twice, with a restart between."""
    with TemporaryDirectory() as folder:
        async with EmbeddedModel() as model:
            database = f"{folder}/context.db"
            await visit(model, database, "Where is the spare key?", note="The spare key is in drawer seven.")
            await visit(model, database, "What is the capital of France?", "Where was the spare key?")


if __name__ == "__main__":
    asyncio.run(main())
