# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What must be steered in a test: a chat model that does as it is told, and a clock."""
