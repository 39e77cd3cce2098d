# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""What is said when what is stored cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xr_ai_conversation.state.context import ContextSchemaError


@contextmanager
def reading(participant_id: str) -> Iterator[None]:
    """Let an error about what is stored of a participant say of whom it is; where a key is wrong, what helps too.

    Raises:
        ContextSchemaError: It is damaged, of a newer version, or encrypted otherwise.
    """
    try:
        yield
    except ContextSchemaError as error:
        raise ContextSchemaError(f"participant {participant_id!r}: {error}") from None
    except (ValueError, NotImplementedError) as error:
        raise ContextSchemaError(
            f"participant {participant_id!r}: what is stored cannot be read ({error}); "
            "open the store with the key that it was written with, or clear the participant"
        ) from error


__all__ = ["reading"]
