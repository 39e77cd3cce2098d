# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is done by hand in LangGraph Studio, by its protocol: a run, its history, and an edit of the past as a fork.

    LANGGRAPH_CLI_NO_ANALYTICS=1 uv run --group studio langgraph dev --no-browser
    uv run python examples/studio_client.py

The first starts the server; the second, in another terminal, takes its address if it is another one.
"""

import asyncio
import sys
from typing import Any

from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

GRAPH = "conversation"  # its name in langgraph.json
QUESTION = "Where is the spare key?"


async def ask(client: LangGraphClient, thread: str) -> None:
    """Print an answer while it is made, and the nodes that ran."""
    print(QUESTION, end=" ")
    modes: Any = ["custom", "updates"]
    async for part in client.runs.stream(thread, GRAPH, input={"request": QUESTION}, stream_mode=modes):
        if part.event == "custom":
            print(part.data, end="", flush=True)
        elif part.event == "updates":
            print(f" [{', '.join(part.data)}]", end="")
    print()


async def main(url: str) -> None:
    """Publish a note and ask; then correct the note as of before the question, and ask again from there."""
    async with get_client(url=url, api_key=None) as client:
        thread = str((await client.threads.create())["thread_id"])
        note = {"topic": "notes", "text": "The spare key is in drawer seven."}
        await client.runs.wait(thread, GRAPH, input=note)
        await ask(client, thread)
        history: Any = await client.threads.get_history(thread)
        for state in history:
            print(f"[{state['created_at']}, next: {', '.join(state['next']) or 'none'}]")
        _, before = [state for state in history if not state["next"]]
        context = before["values"]["context"]
        context["topics"]["notes"]["entries"][0]["text"] = "The spare key is in drawer two."
        await client.threads.update_state(
            thread, {"context": context}, checkpoint_id=before["checkpoint"]["checkpoint_id"]
        )
        await ask(client, thread)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["http://127.0.0.1:2024"]))
