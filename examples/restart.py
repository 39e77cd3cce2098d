# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A conversation that goes on after a restart, and why an answer of before it was what it was.

uv run python examples/restart.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory

from xr_ai_conversation import ContextManager, Conversation, open_saver
from xr_ai_conversation.models import EmbeddedModel


@asynccontextmanager
async def opened(model: EmbeddedModel, database: str) -> AsyncIterator[tuple[ContextManager, Conversation]]:
    """Open the store, as a process of its own would."""
    async with (
        open_saver(database) as saver,
        ContextManager(
            model.summaries, prompts=model.prompts, incremental_context_topics=["notes"], checkpointer=saver
        ) as context,
    ):
        yield context, Conversation(model.answers, context=context)


async def ask(conversation: Conversation, question: str, turn: str) -> None:
    """Print the answer while it is made; the exchange is stored before the stream ends."""
    print(f"ann: {question}\nagent: ", end="")
    async for piece in conversation.stream("ann", question, turn_id=turn):
        print(piece, end="", flush=True)
    print()


async def main() -> None:
    """Ask before and after a restart, then look back."""
    with TemporaryDirectory() as folder:
        async with EmbeddedModel() as model:
            async with opened(model, f"{folder}/context.db") as (context, conversation):
                await context.update("ann", "notes", "The spare key is in drawer seven.")
                await ask(conversation, "Where is the spare key?", "turn-1")
                await context.update("ann", "notes", "The screwdriver is in the kitchen.")
            print("[restart]")
            async with opened(model, f"{folder}/context.db") as (context, conversation):
                await ask(conversation, "Where is the screwdriver?", "turn-2")
                for commit in await context.history("ann"):
                    print(f"[{commit.node}: the context has {sum(commit.bytes.values())} bytes]")
                told = await conversation.explain("ann", "turn-1")
                print(f"[turn-1 was answered from this, exact: {told.exact}]\n{told.messages[1].text}")


if __name__ == "__main__":
    asyncio.run(main())
