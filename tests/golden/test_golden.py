"""What every command with ``--json`` answers, and what the service describes: as before.

A change that is meant is written by ``pytest tests/golden --write-golden`` and read in the diff.
"""

import io
import json
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from epochcast.agent.cli import main as agent
from epochcast.analyzer.cli import main as analyzer

from .answers import EXPECTED, kept, shape
from .inputs import TINY

# What is fitted here and now differs between processors, which add in different orders: a search ends a little elsewhere. With
# AVX2 and with AVX-512 it stays within these (r2 of the fitted occupancies 5e-4, all else 1e-7); without either it does not.
FITTED = 1e-4

DISTRIBUTED = f'predict-model distributed --model {TINY} --json --gpu "A100 SXM4 80GB"'


@dataclass(frozen=True)
class Case:
    """Commands that run one after the other in one folder; what they print as JSON is compared.

    Attributes:
        commands: without ``epochcast``.
        needs: packages without which it is skipped; ``shared`` stands for the public measurements.
        measured: the values are of this machine and this minute: only keys and types are compared.
        slow: it takes more than 5 s.
        rel: how far numbers may be off.
    """

    name: str
    commands: tuple[str, ...]
    needs: tuple[str, ...] = ()
    measured: bool = False
    slow: bool = False
    rel: float = 1e-6


def case(name: str, *commands: str, **more: Any) -> Case:
    return Case(name, commands, **more)


CASES = [
    case("agent_check", "epochcast-agent --replay run.parquet check --json"),
    case("detect", "detect run.parquet --json", "detect steps.parquet --samples-per-step 256 --tokens-per-step 4096 --json"),
    case("detect_job", "detect run.gpu0.parquet run.gpu1.parquet --json"),
    case("profile", "profile run.parquet --workload 'resnet50|64|224' --group resnet50"),
    case("predict", "predict run.parquet --json"),
    case("recommend", "recommend run.parquet --epochs 90 --deadline 10h --startup 5m --json"),
    case("gpus", "gpus --json"),
    case("prices", "prices list --gpu T4 --json"),
    case(
        "regressor",
        "fit regressor --data my-profiles --precision tf32 --out model --json",
        "fit regressor --onto default --data anchors-on-t4 --data anchors-on-mine --gpus my-gpus.toml --out calibrated --json",
        rel=FITTED,
    ),
    case("record", 'record --out rec.parquet --json -- python -c "import time; time.sleep(1)"', measured=True),
    case(
        "fleet",
        "fleet analyze fleet/traces --nodes fleet/nodes.csv --out findings --processes 1 --json",
    ),
    case(
        "convmeter",
        "fit convmeter --data points.csv --out cpu --json",
        "predict-model convmeter --network resnet18 --model cpu --image-size 64 --batch 1 --batch 8 --json",
        rel=FITTED,
    ),
    case(
        "distributed",
        DISTRIBUTED,
        f"{DISTRIBUTED} --search --gpus-total 4 --global-batch 16 --top 5",
        f"{DISTRIBUTED} --compare --strategies '4,1,1 2,2,1 1,2,2' --global-batch 16",
        needs=("torch",),
    ),
    case("packing", "simulate-packing --jobs jobs.csv --memory 16e9 --gpus-total 2 --json --slowdown none"),
    case(
        "occupancy",
        "predict-model occupancy --network alexnet --batch 32 --json",
        "predict-model occupancy --network lenet --gpu T4 --precision fp16 --sweep-batches --json",
        needs=("torch", "transformers"),
    ),
    case(
        "measure",
        "measure convmeter --device cpu --network my_models:tiny --image-size 224 --batch 1 --budget 1 --out here.csv --json",
        needs=("torch", "transformers"),
        measured=True,
        slow=True,
    ),
]


def run(command: str) -> tuple[int, str]:
    """The exit status and what is printed, of a command without ``epochcast``."""
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    said = io.StringIO()
    with redirect_stdout(said):
        status = agent(words[1:]) if words[0] == "epochcast-agent" else analyzer(words)
    return status, said.getvalue()


@pytest.mark.parametrize("asked", [pytest.param(one, id=one.name, marks=[pytest.mark.soak] * one.slow) for one in CASES])
@pytest.mark.usefixtures("work")
def test_commands_answer_as_before(asked: Case, request: pytest.FixtureRequest, same_as_before: Callable[..., None]) -> None:
    for need in asked.needs:
        if need == "shared":
            request.getfixturevalue("shared_data")
        else:
            pytest.importorskip(need)
    answers = []
    for command in asked.commands:
        status, said = run(command)
        answer = json.loads(said)
        told = shape(answer) if asked.measured else kept(answer, command)
        answers.append({"command": command, "status": status, "answer": told})
    same_as_before(asked.name, answers, asked.rel)


def test_the_service_describes_itself_as_before(same_as_before: Callable[..., None]) -> None:
    for extra in ("fastapi", "pebble", "limits", "torch"):  # without torch there are fewer backends
        pytest.importorskip(extra)
    same_as_before("openapi", without_texts(openapi()))


def openapi() -> dict[str, Any]:
    from prometheus_client import CollectorRegistry

    from epochcast.analyzer.plugins import Settings as PluginSettings
    from epochcast.analyzer.plugins.registry import Registry
    from epochcast.analyzer.service.app import create_app
    from epochcast.analyzer.service.config import Settings

    backends = Registry.load(PluginSettings(), {})
    parts = SimpleNamespace(registry=CollectorRegistry(), settings=Settings(), token=None, backends=backends)
    return create_app(parts).openapi()  # type: ignore[arg-type]


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


def test_every_golden_has_its_test() -> None:
    there = {path.stem for path in EXPECTED.glob("*.json")}
    assert there == {one.name for one in CASES} | {"openapi"}
