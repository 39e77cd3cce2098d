# SPDX-FileCopyrightText: 2026 xr-ai-conversation contributors
# SPDX-License-Identifier: Apache-2.0
"""Chat models behind an OpenAI-compatible endpoint, hosted or local."""

import os

from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

# A server that asks for no key still needs a header that is well formed.
_NO_KEY = "none"


def openai_model(
    model: str | None = None, *, base_url: str | None = None, api_key: str | None = None
) -> BaseChatModel:
    """Return a chat model for an OpenAI-compatible endpoint.

    Args:
        model: The model's name; None is that of the environment variable OPENAI_MODEL.
        base_url: Where the API begins, such as http://localhost:8000/v1; None is OPENAI_BASE_URL,
            and OpenAI itself when that is not set.
        api_key: None is OPENAI_API_KEY; a server at a base URL may need none.

    Raises:
        ValueError: No model is named, neither a key nor a base URL is given, or the URL has no scheme.
    """
    model = model or os.environ.get("OPENAI_MODEL")
    base_url = base_url or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
    api_key = api_key or os.environ.get("OPENAI_API_KEY") or (_NO_KEY if base_url else None)
    if not model:
        raise ValueError("model is not given: name one, or set OPENAI_MODEL.")
    if not api_key:
        raise ValueError(
            "api_key and base_url are not given: set OPENAI_API_KEY for OpenAI, "
            "or OPENAI_BASE_URL for a server of your own."
        )
    if base_url and not base_url.lower().startswith(("http://", "https://")):
        raise ValueError(
            f"base_url must begin with http:// or https://, got {base_url!r}: put http:// before it."
        )
    return ChatOpenAI(model=model, base_url=base_url, api_key=SecretStr(api_key))


__all__ = ["openai_model"]
