# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks, as a person starts them for a look."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GIVE_UP_SECONDS = 120
"""Only lest a benchmark that stands still goes unnoticed."""


async def looked(folder: Path, *names: str) -> str:
    """Have a quick look at some benchmarks, and return what is printed; the page is in the folder."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks", *names, "--quick", "--to", str(folder)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        said, complaints = await asyncio.wait_for(process.communicate(), GIVE_UP_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    return said.decode()


async def test_a_look_at_a_benchmark_prints_tables_draws_a_picture_and_makes_a_page(tmp_path: Path) -> None:
    said = await looked(tmp_path, "load")
    page = (tmp_path / "benchmarks.md").read_text()
    steps = json.loads((tmp_path / "benchmarks" / "load.json").read_text())["steps"]
    turns = {
        (name, row["of"]["when"]): row["values"]
        for name, rows in steps.items()
        for row in rows
        if row["what"] == "turns"
    }
    for kind in ("memory", "sqlite", "postgres"):
        assert f" {kind} " in said
        assert f"| {kind} | all at once | 20 |" in page
        assert turns[kind, "all at once"] == turns[kind, "at random times"] == [20]
    assert "![Many participants in one process](benchmarks/load.png)" in page
    assert (tmp_path / "benchmarks" / "load.png").stat().st_size > 10_000


async def test_what_was_measured_is_not_measured_again_and_its_page_shows_the_same_figures(
    tmp_path: Path,
) -> None:
    path = tmp_path / "benchmarks" / "throughput.json"
    await looked(tmp_path, "throughput")
    first, page = json.loads(path.read_text()), (tmp_path / "benchmarks.md").read_text()
    del first["steps"]["profile"]
    path.write_text(json.dumps(first))
    await looked(tmp_path, "throughput")
    found = json.loads(path.read_text())["steps"]
    assert found.keys() == {"turns", "chunks", "profile"}
    assert {name: found[name] for name in first["steps"]} == first["steps"]
    rates = page[page.index("| who |") : page.index("**Where")]
    assert rates in (tmp_path / "benchmarks.md").read_text()
