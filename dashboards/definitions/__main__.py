"""Write the dashboards to ``dashboards/grafana``, or to the folder that is named: ``python dashboards/definitions [FOLDER]``.

Needs the extra `dev` (Grafana's own typed library). What it writes is committed: who uses the dashboards does not need it.
"""

import sys
from pathlib import Path

import fleet
import gpu
import job
from frame import write

import agent

DASHBOARDS = {"fleet": fleet.dashboard, "gpu": gpu.dashboard, "job": job.dashboard, "agent": agent.dashboard}

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "grafana"
folder.mkdir(parents=True, exist_ok=True)
for name, dashboard in DASHBOARDS.items():
    write(dashboard(), folder / f"{name}.json")
