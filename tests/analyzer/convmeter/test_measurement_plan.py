"""What `measure convmeter` measures, and in which order."""

from collections import Counter

from epochcast.analyzer.backends.convmeter.measurement.plan import MOST_FLOPS, NETWORKS, plan
from epochcast.analyzer.backends.distributed.precision import PRECISIONS

FP32, AMP = PRECISIONS["fp32"], PRECISIONS["amp-bf16"]
SOME = ("resnet18", "vgg11", "squeezenet1_0", "alexnet", "mobilenet_v2")  # counted beforehand: no torch


def grid(networks=SOME, blocks=(), sizes=(64, 128), batches=(1, 2, 4), precisions=(FP32, AMP), device="cpu", seed=0):
    return plan(networks, blocks, sizes, batches, precisions, device, seed)


def test_the_first_quarter_has_all_sizes_batches_and_precisions():
    networks = [name for name in NETWORKS if name != "inception_v3"]  # which does not run at 64 pixels
    items = grid(networks=networks, sizes=(64, 128, 224), device="cuda").items
    first = items[: len(items) // 4]
    for of in (lambda item: item.metrics.image_size, lambda item: item.batch, lambda item: item.precision.name):
        share = {value: count / len(items) for value, count in Counter(map(of, items)).items()}
        seen = Counter(map(of, first))
        assert all(abs(seen[value] / len(first) - whole) < 0.12 for value, whole in share.items())


def test_what_takes_minutes_is_left_out_and_counted():
    asked = {"networks": ("vgg11", "squeezenet1_1"), "sizes": (224,), "batches": (1, 256), "precisions": (FP32,)}
    found = grid(**asked)
    assert all(item.batch * item.metrics.values["flops"] <= MOST_FLOPS["cpu"] for item in found.items)
    assert (len(found.items), found.too_long) == (2, 2)
    assert grid(**asked, device="cuda").too_long == 0
