"""Models to predict for: built in, by Hugging Face configuration, or the user's own.

Only ``building``, ``user_module`` and the files of layers need torch.
"""

from .architecture import Architecture

__all__ = ["Architecture"]
