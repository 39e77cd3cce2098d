# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""A session of 100 turns, drawn: the bytes that each section takes in the prompt after each turn.

    uv run python benchmarks/session.py [picture.png]

Notes and observations are published meanwhile; the summariser is a fake that keeps the first words of each record.
It prints how many bytes of each prompt the next one shares from its start, and the size of the SQLite file.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from matplotlib import pyplot as plt
from rich import print as show
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fakes.chat import Piece, ScriptedModel, replies

from xr_ai_conversation import ContextManager, Conversation
from xr_ai_conversation.state.prompt import views
from xr_ai_conversation.state.render import block_size, render_state

TURNS = 100
WORDS = "The pump in hall three was checked and its seal looks fine but the gauge reads three bar more than it did. "


def summarise(messages: list[BaseMessage]) -> str:
    """Keep the beginning of each record, newest last, within the limit that the request names."""
    text = str(messages[-1].content)
    limit = int(re.findall(r"at most (\d+) bytes", text)[-1])
    kept = re.findall(r"^(?:summary|user|update)> (.{1,60})", text, re.MULTILINE)
    return " ".join(kept)[-limit + 20 :]


async def speak(_: list[BaseMessage]) -> AsyncIterator[Piece]:
    """Answer in a few hundred bytes."""
    for piece in (WORDS, WORDS, WORDS):
        yield piece


async def session(summariser: BaseChatModel, path: Path) -> dict[str, list[int]]:
    """Return the bytes of each section after each turn; what the prompts share is printed."""
    sizes: dict[str, list[int]] = {"dialogue": [], "notes": [], "camera": []}
    shared: list[float] = []
    model = ScriptedModel(script=speak)
    async with (
        AsyncSqliteSaver.from_conn_string(str(path)) as saver,
        ContextManager(
            summariser,
            incremental_context_topics=["notes"],
            summary_context_topics=["camera"],
            checkpointer=saver,
        ) as context,
    ):
        talk = Conversation(model, context=context)
        for turn in track(range(TURNS), description="turns"):
            if turn % 3 == 0:
                await context.update("ann", "notes", f"Note {turn}: {WORDS}")
            if turn % 10 == 5:
                await context.update("ann", "camera", f"View {turn}: {WORDS * (1 + turn % 4)}")
            async for _ in talk.stream(
                "ann", f"Question {turn}: what do you know about the pump in hall three?"
            ):
                pass
            await context.settled("ann")
            state = await context.snapshot("ann")
            seen = views(state, context.budgets)
            sizes["dialogue"].append(seen[None].size)
            sizes["notes"].append(seen["notes"].size)
            camera = state["states"].get("camera")
            sizes["camera"].append(block_size(render_state(camera, "camera", 4_000)) if camera else 0)
    prompts = ["".join(str(message.content) for message in sent[:2]) for sent in model.requests]
    for one, other in pairwise(prompts):
        same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
        shared.append(same / len(one))
    show(f"share of each prompt that the next one begins with, mean: {sum(shared) / len(shared):.2f}")
    return sizes


def draw(sizes: dict[str, list[int]], picture: Path) -> None:
    """Draw the bytes of each section over the turns, with its budget."""
    mpl.use("agg")
    figure, axes = plt.subplots(figsize=(9, 4.5))
    for (name, values), color in zip(sizes.items(), ("tab:blue", "tab:orange", "tab:green"), strict=True):
        axes.step(range(1, TURNS + 1), values, where="post", label=name, color=color)
    beside = axes.get_yaxis_transform()
    for budget, name in (
        (8_000, "budget of\nthe dialogue"),
        (4_000, "budget of a topic;\nthe dialogue compacts"),
    ):
        axes.axhline(budget, linestyle=":", linewidth=1, color="gray")
        axes.text(1.01, budget, name, fontsize=8, color="gray", va="center", transform=beside)
    axes.set(
        xlabel="turn", ylabel="bytes in the prompt", ylim=(0, 8_600), title="What is remembered in 100 turns"
    )
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=3)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
    show(f"drawn: {picture}")


def main() -> None:
    """Run the session and draw it."""
    picture = Path(sys.argv[1] if len(sys.argv) > 1 else "session.png")
    with tempfile.TemporaryDirectory() as folder:
        sizes = asyncio.run(session(ScriptedModel(script=replies(summarise)), Path(folder) / "context.db"))
        show(f"bytes on disk after {TURNS} turns: {(Path(folder) / 'context.db').stat().st_size:,}")
    for name, values in sizes.items():
        show(f"{name}: most {max(values):,} bytes, last {values[-1]:,}")
    draw(sizes, picture)


if __name__ == "__main__":
    main()
