"""Iterations on several GPUs: what the shipped coefficients predict, and how well recipes do on measured runs."""

from .parts import FITTED, Cases, Part, answer, evaluated, tables

TORCH = ("torch",)
RUNS = "distributed --data SHARED/distributed/vtrain_multi_node.csv --recipe all"
OPERATORS = "distributed --data SHARED/distributed/neusight_end_to_end.csv --protocol gpu --operators SHARED/distributed"
FEW = {
    "GPT-2 on eight A100": "--model GPT-2 --gpu 'A100 SXM4 80GB' --dp 8 --global-batch 64",
    "a small GPT by tensors and stages": "--model gpt:hidden=1024,layers=8,heads=16 --gpu 'H100 SXM5' --dp 2 --tp 2 --pp 2"
    " --micro-batch 2 --global-batch 32 --precision fp16",
}
MORE = {
    "BERT-Large on four V100": "--model BERT-Large --gpu 'V100 SXM2 32GB' --dp 4 --global-batch 64 --precision fp32",
    "GPT-2 sharded": "--model GPT-2 --gpu 'A100 SXM4 40GB' --dp 16 --zero 1 --recomputation full --global-batch 64",
    "GPT-2 in FP32": "--model GPT-2 --gpu T4 --precision fp32",
    "GPT-2 by the paper": "--model GPT-2 --gpu 'A100 SXM4 80GB' --dp 8 --global-batch 64 --recipe paper",
}


def predicted(asked: dict[str, str]) -> Cases:
    """What the shipped coefficients predict; not what it costs, as prices change."""
    return {
        name.replace("all", question, 1): row
        for question, options in asked.items()
        for name, row in tables(answer(f"predict-model distributed {options}"), without=("cost", "parts_low", "parts_high"))
    }


PARTS = [
    Part("predicted", lambda: predicted(FEW | MORE), quick=lambda: predicted(FEW), needs=TORCH),
    Part("vTrain, a size left out", evaluated(f"{RUNS} --protocol size"), needs=("torch", "shared"), rel=FITTED),
    Part("vTrain, ten rows known", evaluated(f"{RUNS} --protocol rows"), needs=("torch", "shared"), rel=FITTED),
    Part("NeuSight, a GPU left out", evaluated(OPERATORS), needs=("torch", "shared"), rel=FITTED),
]
