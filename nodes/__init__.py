# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""The nodes of the graph, one a file: each reads the state and returns operations."""
