"""What a prediction rests on, in two words; nothing heavy is imported here, for the service's page."""

BOTH_MEASURED = frozenset({"measured", "scaled", "ensemble", "incomplete", "calibrated", "job", "speeds", "stack"})
"""Routes of predictions that rest on measurements of both GPUs; the others take one of them, or both, from the data sheet."""

# Below, less than half of what was learnt from telemetry like this counts.
_LIKE_TRAINING = 0.5


def basis(route: str, support: float) -> str:
    """``jobs like this`` or ``other jobs`` between the two GPUs, or a ``data sheet``."""
    if route == "measured":
        return "this GPU"
    if route not in BOTH_MEASURED:
        return "data sheet"
    return "other jobs" if route in ("speeds", "scaled") or support < _LIKE_TRAINING else "jobs like this"
