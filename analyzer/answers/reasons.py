"""Why a detection has no answer, in the words of the command, its figure, predictions and the demo."""

from __future__ import annotations

from epochcast.detector import Detection, Reason

REASONS: dict[Reason, str] = {
    "too_few_samples": "no epochs found: too few samples. Record for longer, or at a shorter interval.",
    "no_cycle": "no epochs found: no cycle stands out.",
    "rival_cycles": "no epochs found: two cycles are equally likely. Record for longer, or with more metrics.",
    "undersampled": "no epochs found: what repeats takes less than three readings. Record at a shorter interval.",
    "period_changes": "no single epoch length: the period changes.",
}


def no_answer(detection: Detection) -> str | None:
    """Why, and in a second line how it was searched; None where the method does not say why."""
    if detection.reason is None:
        return None
    how = f"method {detection.method}, {detection.clock} clock"
    # Plain "confidence" would read as that of finding nothing. Where the period changes, each stretch has its own.
    if detection.confidence > 0 and not detection.stretches:
        how += f", confidence of the best candidate {detection.confidence:.2f}"
    return f"{REASONS[detection.reason]}\n({how})"
