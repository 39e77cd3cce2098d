# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests run in other processes: writers that share a database, and one that is killed."""

from __future__ import annotations

import asyncio
import os
import sys

from fakes.chat import ScriptedModel
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from xr_ai_conversation import ContextManager


async def write_postgres(address: str, name: str) -> None:
    """Record forty exchanges of one participant, ten at a time."""
    async with (
        AsyncPostgresSaver.from_conn_string(address) as saver,
        ContextManager(
            ScriptedModel(),
            checkpointer=saver,
            dialogue_budget_bytes=100_000,
            compaction_input_budget_bytes=60_000,
        ) as context,
    ):
        for start in range(0, 40, 10):
            async with asyncio.TaskGroup() as group:
                for number in range(start, start + 10):
                    group.create_task(context.record_exchange("p", f"{name} {number}", "ok"))


async def write_sqlite(path: str) -> None:
    """Record exchanges for ever, and print the request of each that is durable."""
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        context = ContextManager(
            ScriptedModel(),
            checkpointer=saver,
            dialogue_budget_bytes=100_000,
            compaction_input_budget_bytes=60_000,
        )
        number = 0
        while True:
            await context.record_exchange("p", f"{os.getpid()}.{number}", "x" * 200)
            sys.stdout.write(f"{os.getpid()}.{number}\n")
            sys.stdout.flush()
            number += 1


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    asyncio.run(write_postgres(*arguments) if kind == "postgres" else write_sqlite(*arguments))
