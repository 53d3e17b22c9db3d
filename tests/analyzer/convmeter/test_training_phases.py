"""What one timed iteration really does: the weights move by the requested rule, in the requested precision."""

import pytest

torch = pytest.importorskip("torch")

from epochcast.analyzer.backends.convmeter.measurement.phases import (  # noqa: E402
    HostTimeline,
    inference,
    training,
)
from epochcast.analyzer.backends.distributed.precision import PRECISIONS  # noqa: E402


class Seen(torch.nn.Module):
    """A small network that notes the type that it computed in, and whether it trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, 3)
        self.seen: list[tuple[torch.dtype, bool]] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        self.seen.append((y.dtype, self.training))
        return y.mean((2, 3))


def _inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(2, 3, 8, 8),)


def test_an_iteration_moves_the_weights_and_drops_the_gradients():
    torch.manual_seed(0)
    network, inputs = Seen(), _inputs()
    before = network.layer.weight.detach().clone()
    iterate = training(network, inputs, PRECISIONS["fp32"], HostTimeline())
    iterate()
    moved = (network.layer.weight - before).abs()
    assert network.layer.weight.grad is None
    assert moved.max() > 0.5e-6  # Adam's first step is the learning rate for any gradient
    assert all(seconds >= 0 for seconds in iterate()) and len(iterate()) == 3


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("amp-bf16", torch.bfloat16)])
def test_both_passes_run_in_the_precision_asked_for(precision, dtype):
    network = Seen()
    training(network, _inputs(), PRECISIONS[precision], HostTimeline())()
    inference(network, _inputs(), PRECISIONS[precision], HostTimeline())()
    assert network.seen == [(dtype, True), (dtype, False)]
