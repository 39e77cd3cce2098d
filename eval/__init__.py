# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Asks, with a live model, whether it remembers right; `python -m eval --help`."""
