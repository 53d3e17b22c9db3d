"""Steps of ConvNets: what the shipped model predicts, and how well the forms do on networks that were left out."""

from .parts import FITTED, Cases, Part, answer, evaluated, tables

CONVNETS = "SHARED/convnets"
TIMM = f"--features {CONVNETS}/timm_layer_features.csv.gz --families {CONVNETS}/timm_families.csv"
H200 = "convmeter --data DATA/h200/convnet_bench/convnet.csv --protocol model"
OURS = "convmeter --data DATA/convmeter_cpu/points.csv.gz --protocol model"
ON = {
    "RTX 3090": "--device 'RTX 3090' --precision amp-fp16",
    "RTX 3090, channels last": "--device 'RTX 3090' --precision amp-fp16-nhwc",
    "RTX 3090 by the paper's recipe": "--device 'RTX 3090' --precision amp-fp16 --recipe paper",
    "16 H100 SXM5 as usual": "--device 'H100 SXM5' --devices 1 --devices 16",
    "A100 in FP16": "--device 'A100 SXM4 40GB' --precision fp16",
    "A100 in FP32": "--device 'A100 SXM4 40GB' --precision fp32",
    "RTX 2080 Ti in FP32": "--device 'RTX 2080 Ti' --precision fp32",
    "one core of an EPYC": "--device 'AMD EPYC (1 thread)' --precision fp32",
}
FEW, MORE = ("resnet50",), ("vgg16", "mobilenet_v2", "efficientnet_b0")


def predicted(*networks: str) -> Cases:
    """What the shipped model predicts."""
    return {
        name.replace("all", f"{network} on {device}", 1): row
        for network in networks
        for device, options in ON.items()
        for name, row in tables(answer(f"predict-model convmeter --network {network} {options} --batch 32 --batch 128"))
    }


def timm(name: str, table: str, protocol: str = "family") -> Part:
    command = f"convmeter --data {CONVNETS}/benchmark-{table}.csv {TIMM} --protocol {protocol}"
    return Part(name, evaluated(command, "network"), needs=("shared",), rel=FITTED)


PARTS = [
    Part("predicted", lambda: predicted(*FEW, *MORE), quick=lambda: predicted(*FEW)),
    timm("timm inference", "infer-amp-nchw-pt240-cu124-rtx3090"),
    timm("timm inference, architecture left out", "infer-amp-nchw-pt240-cu124-rtx3090", "architecture"),
    timm("timm inference, channels last", "infer-amp-nhwc-pt240-cu124-rtx3090"),
    timm("timm training", "train-amp-nchw-pt112-cu113-rtx3090"),
    timm("timm training, channels last", "train-amp-nhwc-pt112-cu113-rtx3090"),
    timm("timm on a CPU", "infer-fp32-nchw-pt240-cpu-i9_10940x-dynamo"),
    Part(
        "torchvision on three GPUs",
        evaluated(f"convmeter --data {CONVNETS}/torchvision_step_times.csv.gz --protocol model", "network"),
        needs=("shared",),
        rel=FITTED,
    ),
    Part(
        "phases on a CPU",
        evaluated(f"convmeter --data {CONVNETS}/cpu_phases.csv --protocol model"),
        needs=("shared",),
        rel=FITTED,
    ),
    Part(
        "our CPU table", evaluated("convmeter --data DATA/convmeter_cpu/points.csv.gz --protocol model", "network"), rel=FITTED
    ),
    Part("H200 step", evaluated(H200), rel=FITTED),
    Part("H200 inference", evaluated(f"{H200} --phase inference"), rel=FITTED),
]
