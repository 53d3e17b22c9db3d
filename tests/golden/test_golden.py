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
FITTED, NEURAL = 1e-4, 1e-3

DISTRIBUTED = f'predict-model distributed --model {TINY} --json --gpu "A100 SXM4 80GB"'
PACKING = "simulate-packing --jobs jobs.csv --memory 16e9 --gpus-total 2 --json"
SPLIT = "evaluate regressor --train old-profiles --test new-profiles --json"
FORMS = ("paper", "relative", "layers", "pooled", "corrected")
NETWORKS = ("mlp", "lstm", "transformer", "dnnperf", "brp-nas", "dnn-occu")


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


def each(command: str, *names: str) -> list[str]:
    return [command.format(name) for name in names]


CASES = [
    case("agent_check", "epochcast-agent --replay run.parquet check --json"),
    case("agent_check_shape", "epochcast-agent --replay run.parquet check --json", measured=True),
    case(
        "detect",
        "detect run.parquet --json",
        "detect run.csv --metric power --metric sm_active --json",
        "detect answer.json --json",
        "detect steps.parquet --samples-per-step 256 --tokens-per-step 4096 --json",
        "detect idle.parquet --json",
        "detect serving.parquet --json",
    ),
    case("detect_job", "detect run.gpu0.parquet run.gpu1.parquet --json"),
    case(
        "detect_cpu",
        "detect data/process_training/again_mlp_line.csv --json",
        "detect data/cpu_training/cnn_b128_val.csv --clock wall --json",
        "detect data/cpu_demo/numpy_1.csv --clock work --json",
        "detect data/cpu_training/autoencoder_b256_val.csv --json",
    ),
    case("detect_methods", *each("detect run.parquet --method {} --json", "paper", "notebook", "autocorrelation", "harmonic")),
    case(
        "detect_change_points",
        *each("detect run.parquet --metric power --method {} --json", "pelt", "dynp", "binseg", "jenks"),
        needs=("ruptures", "jenkspy"),
    ),
    case("profile", "profile run.parquet --workload 'resnet50|64|224' --group resnet50"),
    case(
        "predict",
        "predict run.parquet --json",
        "predict run.parquet --target A10G --target 'H100 SXM5' --epochs 90 --explain --json",
        "predict run.gpu0.parquet run.gpu1.parquet --precision fp32 --target T4 --target L4 --json",
        "predict run.json --target 'H100 SXM5' --target-gpus 8 --tokens-per-step 4096 --json",
        "predict run.json --target 'A100 SXM4 80GB' --batch-may-grow --samples-per-step 64 --json",
        "predict run.csv --gpu T4 --gpus my-gpus.toml --target 'My GPU' --json",
        "predict idle.parquet --target T4 --json",
    ),
    case(
        "recommend",
        "recommend run.parquet --epochs 90 --deadline 10h --startup 5m --json",
        "recommend run.json --epochs 200 --spot --region us-east-1 --memory 8 --idle-share 0.1 --checkpoint-share 0.05 --json",
        "recommend run.gpu0.parquet run.gpu1.parquet --cloud aws --objective time --budget 1 --json",
        "recommend run.json --data-parallel --batch-may-grow --precision mixed --deadline 1 --json",
    ),
    case("gpus", "gpus --json"),
    case(
        "anchors",
        "anchors --gpu L4 --k 5 --json",
        "anchors --gpu 'My GPU' --gpus my-gpus.toml --data my-profiles --k 3 --json",
    ),
    case(
        "prices",
        "prices list --json",
        "prices list --gpu T4 --json",
        "prices import vms.csv --cloud aws --region us-east-1 --date 2025-01-02 --out prices.csv --json",
        "prices list --prices prices.csv --json",
        "recommend run.json --epochs 200 --prices prices.csv --json",
    ),
    case(
        "regressor",
        "fit regressor --data my-profiles --precision tf32 --out model --json",
        "predict run.json --model model --target A10G --json",
        "calibrate default --data anchors-on-t4 --data anchors-on-mine --gpus my-gpus.toml --out calibrated --json",
        "predict run.json --model calibrated --gpus my-gpus.toml --target 'My GPU' --json",
        "evaluate regressor --data my-profiles --protocol P3 --json",
        rel=FITTED,
    ),
    # Not extra-trees: its answer cannot be written as JSON.
    case("regressor_paper_recipe", SPLIT + " --recipe paper", rel=FITTED),
    case("regressor_members", *each(SPLIT + " --recipe {}", "random-forest", "catboost"), slow=True, rel=FITTED),
    case("regressor_simple_recipes", *each(SPLIT + " --recipe {}", "speeds", "prior", "latency-only"), rel=FITTED),
    case("regressor_other_recipes", *each(SPLIT + " --recipe {}", "hist-gradient-boosting", "gaussian-process"), rel=FITTED),
    case(
        "regressor_paper",
        "fit regressor --recipe paper --data my-profiles --out paper --json",
        "predict run.json --recipe paper --model paper --target A10G --target T4 --json",
        slow=True,
        rel=FITTED,
    ),
    case(
        "evaluate_rates", "evaluate regressor --data rates.csv.gz --protocol new-gpu --recipe prior --json", needs=("shared",)
    ),
    case("evaluate_detector", *each("evaluate detector --data traces --method {} --json", "track", "paper")),
    case(
        "evaluate_mlperf",
        "evaluate detector --protocol mlperf --data mlperf_v4.0_power.csv.gz --events mlperf_v4.0_events.csv.gz"
        " --method notebook --json",
        needs=("shared",),
    ),
    case("corpus", "corpus report data/cpu_campaign --json", "corpus merge data/cpu_campaign --out merged --json"),
    case(
        "corpus_import",
        "corpus import wandb/a1 wandb/t4 wandb/none --out corpus --json",
        "corpus report corpus --json",
        "corpus merge corpus data/cpu_campaign --out merged --json",
        "corpus report merged --json",
        needs=("wandb",),
    ),
    case("campaign_plans", "campaign plans --json"),
    case("campaign", "campaign run plan.toml --device cpu --out corpus --json", needs=("torch",), measured=True, slow=True),
    case("record", 'record --out rec.parquet --json -- python -c "import time; time.sleep(1)"', measured=True),
    case(
        "fleet",
        "fleet simulate --out fleet --gpus 2 --minutes 2 --json",
        "fleet analyze fleet/traces --nodes fleet/nodes.csv --out findings --processes 1 --json",
        "fleet analyze traces --out found --processes 1 --objective time --spot --cloud aws --json",
    ),
    case(
        "convmeter",
        "fit convmeter --data points.csv --out cpu --json",
        "predict-model convmeter --network resnet18 --model cpu --image-size 64 --batch 1 --batch 8 --json",
        "predict-model convmeter --network resnet50 --model cpu --block layer2.0 --batch 4 --json",
        *each("fit convmeter --data points.csv --form {0} --out {0} --json", *FORMS),
        *each("predict-model convmeter --network mobilenet_v2 --model {} --batch 8 --json", *FORMS),
        needs=("torch",),  # blocks are counted
        rel=FITTED,
    ),
    case("convmeter_shipped", "predict-model convmeter --network resnet50 --device rtx3090 --batch 256 --json", rel=FITTED),
    # All forms: the others are the baselines.
    case("evaluate_convmeter", "evaluate convmeter --data few-points.csv --protocol model --recipe paper --json", rel=FITTED),
    case(
        "convmeter_devices",
        "fit convmeter --data torchvision_step_times.csv.gz --out gpus --json",
        "predict-model convmeter --network efficientnet_b0 --model gpus --device A100-SXM4-40GB --precision fp16 --batch 12"
        " --devices 1 --devices 2 --devices 4 --dataset-size 1281167 --epochs 90 --json",
        "predict-model convmeter --network resnet50 --model gpus --device A100-SXM4-40GB --precision fp32"
        " --global-batch 64 --devices 1 --devices 4 --json",
        needs=("shared",),
        rel=FITTED,
    ),
    case(
        "evaluate_convmeter_timm",
        "evaluate convmeter --data few-timm.csv --features timm_layer_features.csv.gz --families timm_families.csv --json",
        needs=("shared",),
        rel=FITTED,
    ),
    case(
        "distributed",
        DISTRIBUTED,
        f"{DISTRIBUTED} --dp 2 --tp 2 --pp 2 --micro-batch 2 --global-batch 32 --precision fp16 --iterations 1000",
        f"{DISTRIBUTED} --dp 16 --inter mine --links links.toml --zero 1 --recomputation full --overlap",
        *each(DISTRIBUTED + " --dp 2 --recipe {}", "seed", "roofline", "neusight-style", "vtrain-style"),
        f"{DISTRIBUTED} --operators learned --precision fp32",
        f"{DISTRIBUTED} --tp 2 --graph fx",
        f"{DISTRIBUTED} --search --gpus-total 4 --global-batch 16 --top 5",
        f"{DISTRIBUTED} --compare --strategies '4,1,1 2,2,1 1,2,2' --global-batch 16",
        needs=("torch",),
    ),
    case(
        "distributed_fitted",
        "fit distributed --data tiny-runs.csv --out fitted --json",
        f"{DISTRIBUTED} --calibration fitted --dp 2",
        "calibrate distributed --data tiny-runs.csv --out calibrated --json",
        f"{DISTRIBUTED} --calibration calibrated --dp 2",
        "fit distributed --operators operators --out learned --json",
        f"{DISTRIBUTED} --calibration learned --operators learned --precision fp32",
        "evaluate distributed --data tiny-runs.csv --json",
        "evaluate distributed --data tiny-runs.csv --protocol rows --rows 6 --json",
        needs=("torch",),
        rel=FITTED,
    ),
    case(
        "evaluate_vtrain",
        "evaluate distributed --data vtrain_multi_node.csv --recipe all --json",
        needs=("torch", "shared"),
        slow=True,
        rel=FITTED,
    ),
    case(
        "occupancy_of",
        "occupancy-of trace.json --json",
        "occupancy-of trace.json --gpu T4 --by launch --top 2 --json",
        "occupancy-of run.parquet --json",
    ),
    case(
        "packing",
        f"{PACKING} --slowdown none",
        f"{PACKING} --slowdown fig7 --slowdown utilisation",
        "simulate-packing --configurations trainings.csv --runs 5 --stream-jobs 10 --load 0.8 --seed 3 --slowdown fig7 --json",
    ),
    case(
        "occupancy",
        "predict-model occupancy --network alexnet --batch 32 --json",
        "predict-model occupancy --network lenet --gpu T4 --gpu 'A100 SXM4 80GB' --batch 32 --json",
        "predict-model occupancy --network lenet --gpu T4 --precision fp16 --sweep-batches --json",
        "predict-model occupancy --network lstm --gpu 'H100 SXM5' --sequence 16 --hidden 128 --layers 1 --batch 8 --json",
        "fit occupancy --data trainings.csv --out model --json",
        "predict-model occupancy --network alexnet --model model --batch 32 --json",
        "evaluate occupancy --data trainings.csv --json",
        "evaluate occupancy --data trainings.csv --label peak_memory --protocol architecture --json",
        needs=("torch", "transformers"),
        rel=NEURAL,
    ),
    case(
        "occupancy_models",
        *each("fit occupancy --data trainings.csv --model {0} --epochs 1 --out {0} --json", "mean", *NETWORKS),
        *each("predict-model occupancy --network alexnet --model {} --batch 32 --json", "mean", *NETWORKS),
        needs=("torch_geometric", "transformers"),
        rel=NEURAL,
    ),
    case(
        "benchmarks",
        "measure convmeter --device cpu --network my_models:tiny --image-size 224 --batch 1 --budget 1 --out here.csv --json",
        f"measure operators --device cpu --model {TINY} --precision fp32 --budget 1 --out operators-here.csv --json",
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
