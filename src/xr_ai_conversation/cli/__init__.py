# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The command line: talk with a model that remembers, look at what it remembers, forget it."""

from __future__ import annotations

from xr_ai_conversation.cli.commands import main

__all__ = ["main"]
