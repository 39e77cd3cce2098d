# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Every Python program of the README and of the pages, run as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {
    f"{page.stem}-{number}": code
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
}


@pytest.mark.model
@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_program_runs_and_prints_an_answer(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_there_are_programs() -> None:
    assert {name.split("-")[0] for name in PROGRAMS} >= {"README", "start", "langchain", "xr", "persistence"}
