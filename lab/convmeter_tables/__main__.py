"""Turn public tables of measured networks into points that `epochcast fit convmeter` reads."""

import argparse
from pathlib import Path

from epochcast.analyzer.errors import InputError
from lab.convmeter_tables import read_all


def main() -> None:
    """Write the points of all tables as one CSV file."""
    parser = argparse.ArgumentParser(prog="python -m lab.convmeter_tables", description=__doc__)
    parser.add_argument(
        "tables", nargs="+", type=Path, help="timm's benchmark-*.csv, torchvision_step_times.csv, cpu_phases.csv, convnet.csv"
    )
    parser.add_argument("--features", type=Path, help="layer metrics of timm's networks, for timm's tables")
    parser.add_argument("--families", type=Path, help="family of each network, and whether it is a ConvNet, for timm's tables")
    parser.add_argument("--out", type=Path, required=True, help="the table of points (CSV)")
    options = parser.parse_args()
    try:
        reading = read_all(options.tables, options.features, options.families)
    except InputError as error:
        parser.error(str(error))
    reading.points.to_csv(options.out, index=False)
    left_out = "".join(f"; {count} left out: {reason}" for reason, count in reading.left_out.items())
    print(f"{options.out}: {len(reading.points)} points{left_out}")


if __name__ == "__main__":
    main()
