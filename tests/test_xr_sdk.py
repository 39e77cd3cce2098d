# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Everything works with the classes of another package, unchanged, as with those of the XR SDK.

The SDK cannot be had from a package index. Its stand-in keeps the same contract with classes of its own, which a runtime
tells apart from ours; the tests of the contract run against it in another process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("xr_ai_interaction", "xr_ai_runtime", "xr_ai_routing", "xr_ai_voice", "xr_ai_models")
CONTRACT = ("runtime", "router", "voice", "conversation", "context", "decisions")


def test_the_contract_is_kept_with_the_classes_of_another_package(tmp_path: Path) -> None:
    sdk = tmp_path / "stand_in"
    shutil.copytree(ROOT / "src" / "xr_ai_conversation" / "xr", sdk, ignore=shutil.ignore_patterns("con*"))
    for path in sdk.glob("*.py"):
        text = path.read_text().replace("xr_ai_conversation.xr", "stand_in")
        if path.name == "host.py":
            text = text.replace("return find_spec", "return False and find_spec")
        path.write_text(text)
    for package in PACKAGES:
        (tmp_path / f"{package}.py").write_text("from stand_in import *\n")

    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    chosen = "from xr_ai_conversation import xr; print(xr.AgentRuntime.__module__, xr.AgentTurn.__module__)"
    told = subprocess.run(
        [sys.executable, "-c", chosen], env=environment, check=True, capture_output=True, text=True
    )
    assert told.stdout.split() == ["stand_in.runtime", "stand_in.routing"]

    files = [str(ROOT / "tests" / f"test_xr_{name}.py") for name in CONTRACT]
    run = [sys.executable, "-m", "pytest", "-q", "-m", "not model", "-p", "no:cacheprovider", *files]
    done = subprocess.run(run, env=environment, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4_000:]
    assert " passed" in done.stdout
