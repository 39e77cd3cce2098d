# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The wiring: the graphs, the manager of what is remembered, and the conversation."""
