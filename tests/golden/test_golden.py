"""The keys and types of every ``--json`` document, and the OpenAPI document, as before; values are held by tests/frozen.

A change that is meant is written by ``pytest tests/golden --write-golden`` and read in the diff.
"""

import io
import json
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from epochcast.agent.cli import main as agent
from epochcast.analyzer.cli import main as analyzer
from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulated_fleet import FleetSettings, write_fleet
from lab.simulator import simulate

from ..example_files import write_example_files

EXPECTED = Path(__file__).parent / "expected"

DISTRIBUTED = (
    'predict-model distributed --model gpt:hidden=128,layers=4,heads=4,vocab=512,positions=128 --json --gpu "A100 SXM4 80GB"'
)
JOBS = "name,arrival_s,duration_s,occupancy,nvml_utilisation,memory_bytes\na,0,10,0.3,0.5,1e9\nb,0,20,0.4,0.4,2e9\n"

# Commands without ``epochcast``, which run one after the other in one folder.
CASES = {
    "agent_check": ("epochcast-agent --replay run.parquet check --json",),
    "detect": ("detect run.parquet --json", "detect steps.parquet --json"),
    "detect_job": ("detect run.gpu0.parquet run.gpu1.parquet --json",),
    "profile": ("profile run.parquet --workload 'resnet50|64|224' --group resnet50",),
    "predict": ("predict run.parquet --json",),
    "recommend": ("recommend run.parquet --epochs 90 --deadline 10h --startup 5m --json",),
    "gpus": ("gpus --json",),
    "prices": ("prices list --gpu T4 --json",),
    "regressor": (
        "fit regressor --data my-profiles --precision tf32 --out model --json",
        "fit regressor --onto default --data anchors-on-t4 --data anchors-on-mine --gpus my-gpus.toml --out calibrated --json",
    ),
    "record": ('record --out rec.parquet --json -- python -c "import time; time.sleep(1)"',),
    "fleet": ("fleet analyze fleet/traces --nodes fleet/nodes.csv --out findings --processes 1 --json",),
    "convmeter": (
        "fit convmeter --data points.csv --out cpu --json",
        "predict-model convmeter --network resnet18 --model cpu --image-size 64 --batch 1 --batch 8 --json",
    ),
    "distributed": (
        DISTRIBUTED,
        f"{DISTRIBUTED} --search --gpus-total 4 --global-batch 16",
        f"{DISTRIBUTED} --compare --gpus-total 4 --global-batch 16",
    ),
    "packing": ("simulate-packing --jobs jobs.csv --memory 16e9 --gpus-total 2 --json --slowdown none",),
    "occupancy": (
        "predict-model occupancy --network alexnet --batch 32 --json",
        "predict-model occupancy --network lenet --gpu T4 --precision fp16 --sweep-batches --json",
    ),
}
NEEDS = {"distributed": ("torch",), "occupancy": ("torch", "transformers")}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """A folder with every file that the commands name."""
    folder = tmp_path_factory.mktemp("inputs")
    write_example_files(folder, root)
    made = simulate(9, epochs=1, epoch_s=80.0, step_s=0.5)
    frame = pd.DataFrame({"time": made.time, **made.metrics})
    within_the_epoch = (made.time - made.time[0] > 20) & (made.time - made.time[0] < 60)
    write_trace(Trace(frame[within_the_epoch], gpu=made.gpu, source="simulator", simulated=True), folder / "steps.parquet")
    write_fleet(folder / "fleet", FleetSettings(gpus=2, minutes=2.0))
    (folder / "jobs.csv").write_text(JOBS)
    return folder


@pytest.fixture
def work(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands run in, with links to the inputs: what one test writes no other sees."""
    for path in inputs.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def check(request: pytest.FixtureRequest, name: str, answer: Any) -> None:
    """Compare an answer with ``expected/NAME.json``, or write it there."""
    path = EXPECTED / f"{name}.json"
    if request.config.getoption("--write-golden", False):
        path.write_text(text(answer) + "\n", encoding="utf-8")
    assert answer == json.loads(path.read_text(encoding="utf-8")), "pytest tests/golden --write-golden writes it again"


def text(value: Any, levels: int = 3) -> str:
    """JSON with a line for each key of an answer, each path and each schema: small, and a diff still says where."""
    if not levels or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, list):
        return "[\n" + ",\n".join(text(one, levels - 1) for one in value) + "\n]"
    return "{\n" + ",\n".join(f'"{key}": {text(one, levels - 1)}' for key, one in value.items()) + "\n}"


def shape(value: Any) -> Any:
    """The keys and types of an answer; of a list its first element's."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return "null" if value is None else type(value).__name__


def run(command: str) -> Any:
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    said = io.StringIO()
    with redirect_stdout(said):
        status = agent(words[1:]) if words[0] == "epochcast-agent" else analyzer(words)
    return {"command": command, "status": status, "answer": shape(json.loads(said.getvalue()))}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("work")
def test_commands_answer_as_before(name: str, request: pytest.FixtureRequest) -> None:
    for need in NEEDS.get(name, ()):
        pytest.importorskip(need)
    check(request, name, [run(command) for command in CASES[name]])


def test_the_service_describes_itself_as_before(request: pytest.FixtureRequest) -> None:
    for extra in ("fastapi", "pebble", "torch"):  # without torch there are fewer backends
        pytest.importorskip(extra)
    from prometheus_client import CollectorRegistry

    from epochcast.analyzer.plugins import Settings as PluginSettings
    from epochcast.analyzer.plugins.registry import Registry
    from epochcast.analyzer.service.app import create_app
    from epochcast.analyzer.service.config import Settings

    backends = Registry.load(PluginSettings(), {})
    parts = SimpleNamespace(registry=CollectorRegistry(), settings=Settings(), authentication=None, backends=backends)
    check(request, "openapi", without_texts(create_app(parts).openapi()))  # type: ignore[arg-type]


def without_texts(node: Any, named: bool = False) -> Any:
    """A document without its version and what is for people; where keys are names, all stay. Of a reference its last part."""
    if isinstance(node, list):
        return [without_texts(one) for one in node]
    if not isinstance(node, dict):
        return node
    if set(node) == {"$ref"}:
        return node["$ref"].rpartition("/")[2]
    texts = set() if named else {"description", "summary", "title", "examples", "example", "version"}
    names = {"properties", "schemas", "paths", "responses"}
    told = {key: without_texts(one, not named and key in names) for key, one in node.items() if key not in texts}
    return told["content"] if set(told) == {"content"} else told
