"""What a prediction rests on, in two words; nothing heavy is imported here, for the service's page."""

# Routes of predictions that rest on measurements of both GPUs; the others take one of them, or both, from the data sheet.
_BOTH_MEASURED = frozenset({"measured", "scaled", "ensemble", "incomplete", "calibrated", "job", "speeds", "stack"})

# Below, less than half of what was learnt from telemetry like this counts.
_LIKE_TRAINING = 0.5


def by_data_sheet(route: str) -> bool:
    """Whether nothing was measured on one of the two GPUs."""
    return route not in _BOTH_MEASURED


def basis(route: str, support: float) -> str:
    """``jobs like this`` or ``other jobs`` between the two GPUs, or a ``data sheet``."""
    if route == "measured":
        return "this GPU"
    if by_data_sheet(route):
        return "data sheet"
    return "other jobs" if route in ("speeds", "scaled") or support < _LIKE_TRAINING else "jobs like this"
