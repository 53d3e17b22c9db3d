"""What the cycles of a job are, and how much of each the GPU waits."""

from .naming import name_cycles, name_steps

__all__ = ["name_cycles", "name_steps"]
