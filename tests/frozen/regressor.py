"""How well the regressor does where it did not learn: the figures of every protocol, with those of the simple rules."""

from .parts import FITTED, Part, evaluated

TELEMETRY = "regressor --data SHARED/black_box/cloud_hw_trainpred.csv"
RATES = "regressor --data SHARED/cross_gpu/rates.csv.gz"


def part(name: str, command: str) -> Part:
    return Part(name, evaluated(command), needs=("shared",), rel=FITTED)


PARTS = [
    part("P1 random rows", f"{TELEMETRY} --protocol P1"),
    part("P2 new workload", f"{TELEMETRY} --protocol P2"),
    part("P3 new architecture", f"{TELEMETRY} --protocol P3"),
    part("P4 new GPU", f"{TELEMETRY} --protocol P4"),
    part("P4 by the paper's recipe", f"{TELEMETRY} --protocol P4 --recipe paper"),
    part("rates, new workload", f"{RATES} --protocol P3"),
    part("rates, new GPU", f"{RATES} --protocol P4"),
]
