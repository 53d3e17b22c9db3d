"""Networks that everybody knows: left out on the RTX 3090, and ResNet-50 on GPUs that were not measured; part `well_known`.

Run: python -m lab.speed.convmeter.well_known [--write]      (docs/convmeter.md)
"""

from collections.abc import Iterator

import pandas as pd

from epochcast.analyzer.backends.convmeter.backend import ConvMeter
from epochcast.analyzer.backends.convmeter.predictor import fit_form
from epochcast.analyzer.backends.convmeter.question import ConvMeterQuestion
from epochcast.analyzer.plugins import Settings
from lab.speed.convmeter.public_tables import points_of
from lab.speed.page import CONVMETER, markdown_table, options, public, publish

NETWORKS = ("resnet50", "convnext_tiny", "vit_base_patch16_224", "efficientnet_b0")
TABLES = {"inference": "infer-amp-nhwc-pt240-cu124-rtx3090", "step": "train-amp-nhwc-pt112-cu113-rtx3090"}
GPUS = ("RTX 3090", "RTX 4090", "V100 SXM2 16GB", "A100 SXM4 40GB", "A100 SXM4 80GB", "H100 SXM5", "H200 SXM")

PRECISIONS = {"lambda": "amp-fp16"}
"""Lambda runs NVIDIA's PyTorch example by ``main.py --amp``, in channels first. Of others the usual is asked."""


def lines() -> Iterator[str]:
    """Predicted over measured."""
    rows = []
    for network in NETWORKS:
        row = [network]
        for phase, table in TABLES.items():
            points = points_of(f"benchmark-{table}.csv", convnets_only=False)
            one = points[(points["network"] == network) & (points["image_size"] == 224)]
            others = points[points["family"] != one["family"].iloc[0]].reset_index(drop=True)
            predicted, measured = fit_form("default", phase, others).predict(one)[0], one[f"{phase}_seconds"].iloc[0]
            images = one["batch"].iloc[0]
            row += [f"{images / measured:.0f}", f"{images / predicted:.0f} ({100 * (measured / predicted - 1):+.0f} %)"]
        rows.append(row)
    header = ("family left out, RTX 3090, images/s", "inference measured", "predicted", "training measured", "predicted")
    yield from markdown_table(header, rows)
    yield ""
    backend, rates = ConvMeter(Settings()), public_rates()
    compared = []
    for gpu, source, measured in rates[["gpu", "source", "rate"]].itertuples(index=False):
        precision = PRECISIONS.get(source, "amp-fp16-nhwc")
        question = ConvMeterQuestion.of({"network": "resnet50", "device": gpu, "precision": precision})
        rate = backend.answer(question).predictions[0].rate
        off = f"{100 * (rate.value / measured - 1):+.0f} %"
        predicted = f"{rate.value:.0f} ({rate.low:.0f} to {rate.high:.0f})"
        compared.append([gpu, source, precision, f"{measured:.0f}", predicted, off])
    columns = ("ResNet-50, training", "public source", "precision", "images/s", "predicted", "off")
    yield from markdown_table(columns, sorted(compared, key=lambda row: (row[2], row[1], GPUS.index(row[0]))))


def public_rates() -> pd.DataFrame:
    """ResNet-50 in mixed precision per GPU by source and code, the newest release; of machines the share of a GPU."""
    table = pd.read_csv(public("cross_gpu/rates.csv.gz")).fillna({"release": ""})
    own = table[table["workload"].str.contains("resnet50|RN50|^resnet$", regex=True) & (table["precision"] == "mixed")]
    own = own[own["gpu"].isin(GPUS)]
    fewest = own["gpus"] == own.groupby(["source", "workload", "gpu"])["gpus"].transform("min")
    own = own[fewest].sort_values("release").groupby(["source", "workload", "gpu"]).last().reset_index()
    framework = own["workload"].str.split("/").str[0].where(own["source"] == "nvidia_examples", "")
    return own.assign(rate=own["rate"] / own["gpus"], source=(own["source"] + " " + framework).str.strip())


if __name__ == "__main__":
    publish(CONVMETER, "well_known", lines(), write=options(__doc__).parse_args().write)
