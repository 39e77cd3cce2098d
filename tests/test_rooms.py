# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The house itself: which room imports which, what is public, and what a wheel holds."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import xr_ai_conversation

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "xr_ai_conversation"
FOLDERS = ("graph", "nodes", "state")
BELOW = {
    "state": {"state"},
    "nodes": {"nodes", "state"},
    "graph": {"graph", "nodes", "state"},
    "models": {"models", "nodes", "state"},
    "xr": {"xr", "graph", "nodes", "state"},
}


def imported(path: Path) -> set[str]:
    """Return the rooms of ours that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    ours = [name.split(".") for name in names if name.split(".")[0] == "xr_ai_conversation"]
    return {parts[1] if len(parts) > 1 else "" for parts in ours}


@pytest.mark.parametrize("room", BELOW)
def test_imports_run_one_way(room: str) -> None:
    files = list((PACKAGE / room).rglob("*.py"))
    assert files
    for path in files:
        assert imported(path) <= BELOW[room], path


def test_state_runs_no_graph_and_no_model_and_reads_no_clock() -> None:
    for path in (ROOT / "state").glob("*.py"):
        text = path.read_text()
        assert not any(
            word in text for word in ("langchain", "asyncio", "datetime.now", "open(", "import time")
        ), path


@pytest.mark.parametrize("name", FOLDERS)
def test_an_import_name_reaches_its_top_level_folder(name: str) -> None:
    module = importlib.import_module(f"xr_ai_conversation.{name}")
    assert module.__file__ is not None
    assert Path(module.__file__).resolve().parent == ROOT / name


def test_the_public_names_are_sorted_and_there() -> None:
    names = xr_ai_conversation.__all__
    assert names == sorted(names) == sorted(xr_ai_conversation._HOMES)
    assert all(getattr(xr_ai_conversation, name).__doc__ for name in names)


def test_every_file_says_its_licence() -> None:
    files = [
        path
        for folder in (*FOLDERS, "src", "tests", "benchmarks", "eval", "examples")
        for path in (ROOT / folder).rglob("*.py")
    ]
    assert len(files) > 40
    for path in files:
        assert path.read_text().splitlines()[1] == "# SPDX-License-Identifier: Apache-2.0", path


def test_a_wheel_holds_every_module_under_one_name(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    shipped = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {
        f"xr_ai_conversation/{path.relative_to(PACKAGE).as_posix()}"
        for path in [*PACKAGE.rglob("*.py"), *(f for name in FOLDERS for f in (PACKAGE / name).rglob("*.py"))]
    }
    assert shipped == expected | {"xr_ai_conversation/py.typed"}


def test_every_log_carries_its_values_as_fields() -> None:
    calls = [
        (path, call)
        for room in ("graph", "nodes", "state", "xr", "models")
        for path in (PACKAGE / room).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and getattr(call.func.value, "id", "") == "_LOG"
        and len(call.args) > 1
    ]
    assert len(calls) > 10
    for path, call in calls:
        assert "extra" in {keyword.arg for keyword in call.keywords}, f"{path}:{call.lineno}"
