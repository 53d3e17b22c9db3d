"""Ours: the mean over operators, each with an occupancy and a weight of its own (not from the paper).

What is predicted is a mean over kernels (section III-A), and every kernel comes from an operator: so the answer is

    sum_i w(x_i) o(x_i) / sum_i w(x_i)        x_i: Table I of operator i

with two outputs of one small network, the operator's occupancy o in 0..1 and its weight w > 0 (launches for the plain mean,
time for the weighted one). Only their mean over a graph is ever compared with a label. A new architecture is new only in how
often which operators come; edges and order are not looked at. For seconds the answer is the sum of w alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from ..features import NODE_FEATURES, Standardiser, node_features
from ..sample import Sample
from .output import Floats, Output, Target

HIDDEN = 64
EPOCHS_PER_PAPERS = 6
"""Passes for one that the paper's networks make: one takes a fraction of a second."""
MEMBERS = 3
"""Networks from other first weights whose answers are averaged."""
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-3

_SMALLEST = 1e-3
"""Below it occupancies do not differ for the error: a logarithm would blow such differences up."""
_WIDEST = 15.0
"""Logarithm of the largest weight over the one of an average operator."""
_USUAL_OPERATORS = 5.0
"""Logarithm of the number of operators in a graph: so that untrained networks answer about the mean of the labels."""


class OperatorMean:
    """An ensemble of networks that see one operator at a time."""

    def __init__(
        self,
        target: Target = "ratio",
        seed: int = 0,
        epochs: int = 50,
        progress: Callable[[int, int, float], object] | None = None,
    ) -> None:
        self.target, self.seed, self.epochs, self.progress = target, seed, epochs, progress

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Fit by Adam on all samples at once; values that cannot be raise InputError."""
        self._output = Output.of(self.target, values, len(samples))
        rows = [node_features(sample) for sample in samples]
        self._standardiser = Standardiser.fit(rows)
        batch = _Operators.of(rows, self._standardiser)
        wanted = torch.tensor(self._output.learnt(values), dtype=torch.float32)
        self._members = [self._train(batch, wanted, member) for member in range(MEMBERS)]
        return self

    def _train(self, batch: _Operators, wanted: Tensor, member: int) -> _Network:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.random.fork_rng():
            torch.manual_seed(self.seed * MEMBERS + member)
            network = _Network(self._output).to(device)
        batch, wanted = batch.to(device), wanted.to(device)
        steps = EPOCHS_PER_PAPERS * self.epochs
        optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
        for step in range(steps):
            loss = _error(network(batch), wanted, self._output.target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if self.progress is not None:
                self.progress(member * steps + step + 1, MEMBERS * steps, float(loss.detach()))
        trained: _Network = network.cpu().eval()
        return trained

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        batch = _Operators.of([node_features(sample) for sample in samples], self._standardiser)
        with torch.no_grad():
            learnt = torch.stack([member(batch) for member in self._members]).mean(dim=0)
        return self._output.values(learnt.numpy().astype(np.float64))

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        arrays: dict[str, np.ndarray[Any, Any]] = {"mean": self._standardiser.mean, "scale": self._standardiser.scale}
        for place, member in enumerate(self._members):
            arrays |= {f"member{place}.{name}": tensor.numpy() for name, tensor in member.state_dict().items()}
        return {"output": self._output.state(), "members": len(self._members)}, arrays

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Self:
        """Take what :meth:`state` gave."""
        self._output = Output.restored(settings["output"])
        self.target = self._output.target
        self._standardiser = Standardiser(arrays["mean"], arrays["scale"])
        self._members = []
        for place in range(int(settings["members"])):
            network = _Network(self._output)
            begin = f"member{place}."
            network.load_state_dict(
                {name.removeprefix(begin): torch.tensor(array) for name, array in arrays.items() if name.startswith(begin)}
            )
            self._members.append(network.eval())
        return self


def _error(learnt: Tensor, wanted: Tensor, target: Target) -> Tensor:
    """Mean absolute difference of logarithms, which is about the relative error; seconds are learnt as logarithms already."""
    if target == "ratio":
        learnt, wanted = learnt.clamp_min(_SMALLEST).log(), wanted.clamp_min(_SMALLEST).log()
    return (learnt - wanted).abs().mean()


class _Operators:
    """Operators of many graphs, those that are alike within a graph once with their number."""

    def __init__(self, rows: Tensor, counts: Tensor, graph: Tensor, graphs: int) -> None:
        self.rows, self.counts, self.graph, self.graphs = rows, counts, graph, graphs

    @classmethod
    def of(cls, parts: Sequence[np.ndarray[Any, np.dtype[np.float32]]], standardiser: Standardiser) -> _Operators:
        kinds, counts = zip(*(np.unique(part, axis=0, return_counts=True) for part in parts), strict=True)
        return cls(
            torch.from_numpy(standardiser.apply(np.concatenate(kinds))),
            torch.from_numpy(np.concatenate(counts).astype(np.float32)),
            torch.from_numpy(np.repeat(np.arange(len(parts)), [len(part) for part in kinds])),
            len(parts),
        )

    def to(self, device: str) -> _Operators:
        return _Operators(self.rows.to(device), self.counts.to(device), self.graph.to(device), self.graphs)

    def sum(self, values: Tensor) -> Tensor:
        """Over the operators of each graph, shape (graphs,)."""
        return torch.zeros(self.graphs, device=values.device).index_add(0, self.graph, values * self.counts)


class _Network(nn.Module):
    def __init__(self, output: Output) -> None:
        super().__init__()
        self.output = output
        self.layers = nn.Sequential(
            nn.Linear(NODE_FEATURES, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, 2)
        )

    def forward(self, batch: _Operators) -> Tensor:
        """Shape (graphs,), in the units of the output."""
        occupancy, weight = self.layers(batch.rows).unbind(dim=1)
        weight = weight.clamp(-_WIDEST, _WIDEST).exp()
        if self.output.target == "seconds":
            return (batch.sum(weight).log() - _USUAL_OPERATORS) / self.output.scale
        mean: Tensor = batch.sum(weight * (occupancy + self.output.mean).sigmoid()) / batch.sum(weight)
        return mean
