# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of stores, as a person starts them for a look."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
NAMES = ["storage", "load"]
KINDS = ["memory", "sqlite", "postgres"]
GIVE_UP_SECONDS = 120
"""Only lest a benchmark that stands still goes unnoticed."""


async def ran(name: str, folder: Path) -> str:
    """Run a benchmark, and return what it prints; its pictures and figures are in the folder."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(BENCHMARKS / f"{name}.py"),
        str(folder / f"{name}.png"),
        "--quick",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complaints = await asyncio.wait_for(process.communicate(), GIVE_UP_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    return said.decode()


async def test_benchmarks_of_stores_print_a_table_draw_a_picture_and_write_their_figures(
    tmp_path: Path,
) -> None:
    said = dict(zip(NAMES, await asyncio.gather(*(ran(name, tmp_path) for name in NAMES)), strict=True))
    rows = {name: json.loads((tmp_path / f"{name}.json").read_text())["rows"] for name in NAMES}
    for name in NAMES:
        assert {row["saver"] for row in rows[name]} == set(KINDS)
        assert all(f" {kind} " in said[name] for kind in KINDS)
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert all(row["bytes"] and row["turns_ms"] for row in rows["storage"])
    assert [(row["saturated"]["turns"], row["saturated"]["failures"]) for row in rows["load"]] == [
        (20, {})
    ] * 3
