# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What a participant's context is, and every rule about it: pure functions over plain JSON."""
