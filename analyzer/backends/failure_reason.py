"""Why a network could not be run, in words that are alike for failures alike: what is measured in bulk counts them."""

from __future__ import annotations

import re

import torch

from ..errors import InputError


def failure_reason(error: Exception) -> str:
    """A few words; whatever a user's network raises."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error):
        return "out of memory"
    text = " ".join(str(error).split())
    if isinstance(error, InputError):
        return text
    if isinstance(error, RuntimeError | ValueError):  # torch's, who goes on with sizes that differ from item to item
        return re.split(r"[.,;:(]", text)[0][:100] or type(error).__name__
    return f"{type(error).__name__}: {text}"[:100]
