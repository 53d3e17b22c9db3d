"""Blocks of networks that were never fitted on, on one thread of a CPU (Table 2 of the paper); part `blocks`.

Run: python -m lab.speed.convmeter.blocks [--write]

A block is predicted by a fit without its network and without other blocks of it: on the whole networks that are left, on the
blocks that are left, and on both.
"""

from collections.abc import Iterator
from functools import partial

from epochcast.analyzer.backends.convmeter.metrics import known_metrics, read_points
from lab.speed.convmeter.public_tables import BOTH, OWN, errors_by, left_out
from lab.speed.page import CONVMETER, markdown_table, options, publish

SEEN = {"networks": ("",), "blocks": ("block",), "networks and blocks": ("", "block")}


def lines() -> Iterator[str]:
    """Errors by what was fitted on, then by block."""
    points = read_points(OWN / "points.csv.gz")
    names = known_metrics().drop_duplicates(["network", "block"]).set_index(["network", "block"])["block_name"]
    called = [f"{names.get(key, key[1])} of {key[0]}" for key in zip(points["network"], points["block"], strict=True)]
    points = points.assign(called=called, kind=points["block"].ne("").map({True: "block", False: ""}))
    answers = {}
    for phase in ("inference", "step"):
        for what, kinds in SEEN.items():
            for form in BOTH:
                answer = left_out(
                    points, phase, form, seen=partial(lambda kinds, train: train["kind"].isin(kinds).to_numpy(), kinds)
                )
                answers[phase, what, form] = answer.only((answer.points["kind"] == "block").to_numpy())
    rows = []
    for phase in ("inference", "step"):
        for what in SEEN:
            figures = [answers[phase, what, form].figures for form in BOTH]
            rows.append((phase, what, str(figures[0].n), *(f"{one.mape:.1f} ({one.r2:.2f})" for one in figures)))
    yield from markdown_table(("blocks: MAPE % (R2)", "fitted on", "n", *BOTH), rows)
    yield ""
    chosen = {form: answers["inference", "networks and blocks", form] for form in BOTH}
    yield from errors_by(chosen, "called", "inference of a block", "ms")


if __name__ == "__main__":
    publish(CONVMETER, "blocks", lines(), write=options(__doc__).parse_args().write)
