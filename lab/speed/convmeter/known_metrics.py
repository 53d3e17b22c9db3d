"""Count torchvision's ConvNets and the blocks of Table 2 for the table that comes with the product.

Run: python -m lab.speed.convmeter.known_metrics --write        (writes known_metrics.csv.gz next to known_metrics.py; needs
torchvision, about 40 s. Without --write it says in which rows the table differs from what would be counted now.)
"""

import gzip
from collections.abc import Iterator

import pandas as pd

from epochcast.analyzer.backends.convmeter.counting import count
from epochcast.analyzer.backends.convmeter.metrics import TABLE, known_metrics
from epochcast.analyzer.backends.network.find import find_network, import_torchvision
from epochcast.analyzer.errors import InputError
from epochcast.common.files import write_whole
from lab.convmeter.blocks import block_names
from lab.speed.page import options

IMAGE_SIZES = (32, 64, 128, 224)
OWN_IMAGE_SIZES = {"inception_v3": 299}
NO_CONVNETS = ("vision_transformer", "swin_transformer", "maxvit")

BLOCKS = {
    # Table 2
    "resnext50_32x4d": "Bottleneck1",
    "resnet50": "Bottleneck4",
    "inception_v3": "BasicConv2d4",
    "resnet18": "BasicBlock7",
    "mobilenet_v3_large": "InvertedResidual2",
    "regnet_x_8gf": "ResBottleneckBlock3",
    "wide_resnet50_2": "Bottleneck9",
    "efficientnet_b0": "MBConv2",
    "mobilenet_v2": "InvertedResidual3",
    # other designs
    "squeezenet1_0": "Fire2",
    "googlenet": "Inception2",
    "convnext_tiny": "CNBlock4",
}


def rows_of(name: str, image_size: int, family: str) -> Iterator[dict[str, object]]:
    """The rows of one network at one size; none if its image is too small."""
    network, inputs = find_network(f"torchvision:{name}", image_size)
    try:
        counted = count(network, inputs, name, image_size)
    except InputError as error:
        print(f"{name} at {image_size} px: {error}")
        return
    names = {"": "", **block_names(network)}
    for path in ("", *(path for path in names if path in counted and names[path] == BLOCKS.get(name))):
        named = {"network": name, "family": family, "block": path, "block_name": names[path], "image_size": image_size}
        yield {**named, **counted[path]}


def main() -> None:
    """Count, then write or compare."""
    parser = options(__doc__, page=False)
    parser.add_argument("--write", action="store_true", help="write the table")
    write, models = parser.parse_args().write, import_torchvision().models
    rows: list[dict[str, object]] = []
    for name in models.list_models(module=models):
        family = models.get_model_builder(name).__module__.rpartition(".")[2]
        if family not in NO_CONVNETS:
            for size in sorted({*IMAGE_SIZES, OWN_IMAGE_SIZES.get(name, IMAGE_SIZES[0])}):
                rows += rows_of(name, size, family)
    table = pd.DataFrame(rows)
    if write:
        text = table.to_csv(index=False, float_format="%.0f")
        write_whole(TABLE, lambda file: file.write(gzip.compress(text.encode(), mtime=0)))
        print(f"{len(table)} rows of {table['network'].nunique()} networks")
        return
    both = table.merge(known_metrics(), how="outer", on=list(table.columns), indicator=True)
    differ = both[both["_merge"] != "both"]
    print(f"{len(differ)} of {len(both)} rows differ")
    for one in differ[["network", "block_name", "image_size", "_merge"]].itertuples(index=False):
        print(*one)


if __name__ == "__main__":
    main()
