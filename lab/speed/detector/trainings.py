"""Small real trainings on the CPU, and one batch inference, as ``trainings.toml`` lists them: what gets recorded.

Recorded by: epochcast record --source host --out NAME.csv -- python -m lab.speed.detector.trainings NAME --labels NAME.json

Data is synthetic (the machine may be offline) but learnable: the loss of every epoch goes into the labels. The marks are taken
where a user would put them: an epoch starts before its first batch is requested and ends after validation and checkpoint.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from epochcast.common.files import write_whole
from lab.speed.page import options

PLAN = Path(__file__).with_suffix(".toml")
CLASSES, VOCABULARY, LENGTH = 10, 64, 48
BUSY = "import sys, time\ntime.sleep({start})\nuntil = time.monotonic() + {lasts}\nwhile time.monotonic() < until: pass"


@dataclass(frozen=True)
class Run:
    """One entry of the plan; ``validation`` is a share of ``samples``, the rest is trained on."""

    model: str
    batch: int
    epochs: int  # 0: no training, the samples are predicted in shards
    samples: int
    threads: int
    seed: int
    validation: float = 0.0
    checkpoint_every: int = 0  # epochs; 0: none
    workers: int = 0  # loader processes
    augment: bool = False  # random crop and flip, sample by sample
    cached: bool = False  # images are resized at their first use, so that the first epoch is longer
    neighbour_s: tuple[float, float] | None = None  # another process computes from .. to [s after this one's imports]
    prints: str = "epoch"  # what ends with a line of output: epoch, step, nothing

    @property
    def cls(self) -> str:
        """The group that ``evaluate`` reports this run in."""
        if self.epochs == 0:
            return "recorded_inference"
        return "recorded_val" if self.validation else "recorded_noval"


def plan(path: Path = PLAN) -> dict[str, Run]:
    """Every run of the plan by name, in file order."""
    return {name: Run(**entry) for name, entry in tomllib.loads(path.read_text()).items()}


# --- data -------------------------------------------------------------------------------------------------------------------


def images(samples: int, rng: np.random.Generator, side: int = 32) -> TensorDataset:
    """Shifted and noisy copies of one smooth picture per class: float32 (samples, 3, side, side), classes (samples,)."""
    pictures = rng.normal(size=(CLASSES, 3, 8, 8)).repeat(side // 8, axis=2).repeat(side // 8, axis=3).astype(np.float32)
    labels = rng.integers(CLASSES, size=samples)
    x = rng.standard_normal((samples, 3, side, side), dtype=np.float32) * 2.0
    for row, (label, shift) in enumerate(zip(labels, rng.integers(-6, 7, size=(samples, 2)), strict=True)):
        x[row] += np.roll(pictures[label], shift, axis=(1, 2))
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(labels))


def reconstructions(samples: int, rng: np.random.Generator) -> TensorDataset:
    """The same images as their own targets, for an autoencoder."""
    (x, _) = images(samples, rng).tensors
    return TensorDataset(x, x)


def tokens(samples: int, rng: np.random.Generator) -> TensorDataset:
    """Markov chains in which every token has four successors: int64 (samples, LENGTH), and the same one token later."""
    successors = rng.integers(VOCABULARY, size=(VOCABULARY, 4))
    chain = np.empty((samples, LENGTH + 1), dtype=np.int64)
    chain[:, 0] = rng.integers(VOCABULARY, size=samples)
    for step, choice in enumerate(rng.choice(4, p=(0.6, 0.2, 0.15, 0.05), size=(LENGTH, samples))):
        chain[:, step + 1] = successors[chain[:, step], choice]
    return TensorDataset(torch.from_numpy(chain[:, :-1].copy()), torch.from_numpy(chain[:, 1:].copy()))


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Random crop (padding 4) and horizontal flip of each image when it is requested."""

    def __init__(self, data: TensorDataset) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x, label = self._data[index]
        top, left = torch.randint(9, (2,)).tolist()
        x = functional.pad(x, (4, 4, 4, 4))[:, top : top + x.shape[1], left : left + x.shape[2]]
        return (x.flip(-1) if torch.rand(()) < 0.5 else x), label


class Cached(Dataset[tuple[Tensor, Tensor]]):
    """Images that are resized to 32 pixels a side at the first request, and kept."""

    def __init__(self, data: TensorDataset) -> None:
        self._data = data
        self._small: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x, label = self._data[index]
        if index not in self._small:
            self._small[index] = functional.interpolate(x[None], size=32, mode="bicubic", antialias=True)[0]
        return self._small[index], label


# --- models -----------------------------------------------------------------------------------------------------------------


def cnn() -> nn.Module:
    """Three convolutions and a linear classifier."""
    return nn.Sequential(
        *(nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4)),
        *(nn.Flatten(), nn.Linear(64 * 16, CLASSES)),
    )


class Residual(nn.Module):
    """Two convolutions with batch normalisation around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()),
            *(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Feature maps (batch, channels, height, width), halved by stride 2."""
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet() -> nn.Module:
    """Six residual blocks in three stages."""
    widths = [(3, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
    blocks = [Residual(*width) for width in widths]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


def depthwise() -> nn.Module:
    """Depthwise and pointwise convolutions, as in MobileNet."""
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    for inputs, outputs, stride in [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2)]:
        layers += [nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs), nn.ReLU()]
        layers += [nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, CLASSES))


def mlp() -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(3 * 32 * 32, 512), nn.ReLU()),
        *(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES)),
    )


def autoencoder() -> nn.Module:
    """Two strided convolutions down, two transposed ones up."""
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 16, 4, 2, 1), nn.ReLU()),
        *(nn.ConvTranspose2d(16, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1)),
    )


class Lstm(nn.Module):
    """A one-layer LSTM language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 64)
        self.lstm = nn.LSTM(64, 128, batch_first=True)
        self.head = nn.Linear(128, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (batch, VOCABULARY, LENGTH) of the next token."""
        return self.head(self.lstm(self.embedding(x))[0]).transpose(1, 2)


class Transformer(nn.Module):
    """A causal language model of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 96)
        self.position = nn.Parameter(torch.zeros(LENGTH, 96))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(96, 4, 192, batch_first=True) for _ in range(2))
        self.head = nn.Linear(96, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (batch, VOCABULARY, LENGTH) of the next token."""
        x = self.embedding(x) + self.position
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=True)
        return self.head(x).transpose(1, 2)


Loss = Callable[[Tensor, Tensor], Tensor]
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[..., TensorDataset], Loss]] = {
    "cnn": (cnn, images, functional.cross_entropy),
    "resnet": (resnet, images, functional.cross_entropy),
    "depthwise": (depthwise, images, functional.cross_entropy),
    "mlp": (mlp, images, functional.cross_entropy),
    "autoencoder": (autoencoder, reconstructions, functional.mse_loss),
    "lstm": (Lstm, tokens, functional.cross_entropy),
    "transformer": (Transformer, tokens, functional.cross_entropy),
}


# --- runs -------------------------------------------------------------------------------------------------------------------


def train(run: Run, folder: Path) -> dict[str, Any]:
    """Train as planned, with checkpoints in ``folder``; the marks [unix s] and the mean loss of each epoch."""
    make_model, make_data, loss_of = MODELS[run.model]
    rng = np.random.default_rng(run.seed)
    whole = make_data(run.samples, rng, side=64) if run.cached else make_data(run.samples, rng)
    trained = round(run.samples * (1 - run.validation))
    data: Dataset[Any] = Cached(whole) if run.cached else Augmented(whole) if run.augment else whole
    loader = DataLoader(Subset(data, range(trained)), run.batch, shuffle=True, num_workers=run.workers)
    held_out = DataLoader(Subset(Cached(whole) if run.cached else whole, range(trained, run.samples)), run.batch)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    marks: dict[str, Any] = {"epoch_starts": [], "epoch_ends": [], "train_ends": [], "losses": [], "validation_losses": []}
    for epoch in range(run.epochs):
        marks["epoch_starts"].append(time.time())
        model.train()
        losses = []
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if run.prints == "step":
                print(f"step {len(losses)}: loss {losses[-1]:.3f}", flush=True)
        marks["train_ends"].append(time.time())
        if run.validation:
            model.eval()
            with torch.no_grad():
                marks["validation_losses"].append(float(np.mean([loss_of(model(x), y).item() for x, y in held_out])))
        if run.checkpoint_every and (epoch + 1) % run.checkpoint_every == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / f"epoch_{epoch}.pt")
        marks["epoch_ends"].append(time.time())
        marks["losses"].append(float(np.mean(losses)))
        if run.prints == "epoch":
            seconds = marks["epoch_ends"][-1] - marks["epoch_starts"][-1]
            print(f"epoch {epoch}: {seconds:.2f} s, loss {marks['losses'][-1]:.3f}", flush=True)
    return marks


def infer(run: Run, folder: Path) -> dict[str, Any]:
    """Predict shard by shard, with untrained weights: read a file, predict, write the answers; shards differ in size."""
    make_model, make_data, _ = MODELS[run.model]
    rng = np.random.default_rng(run.seed)
    sizes: list[int] = []
    while (left := run.samples - sum(sizes)) > 0:
        sizes.append(min(left, int(rng.lognormal(np.log(run.samples / 30), 0.6)) + 1))
        np.save(folder / f"shard_{len(sizes) - 1}.npy", make_data(sizes[-1], rng).tensors[0].numpy())
    model = make_model().eval()
    marks: dict[str, Any] = {"epoch_starts": [], "epoch_ends": [], "shards": sizes, "inference_start": time.time()}
    for shard in range(len(sizes)):
        x = torch.from_numpy(np.load(folder / f"shard_{shard}.npy"))
        with torch.no_grad():
            answers = torch.cat([model(piece).argmax(1) for piece in x.split(run.batch)])
        np.save(folder / f"answers_{shard}.npy", answers.numpy())
    return marks | {"inference_end": time.time()}


def execute(name: str, run: Run, labels: Path) -> None:
    """Run one entry of the plan and write its labels (design/formats.md) to ``labels``."""
    torch.manual_seed(run.seed)
    torch.set_num_threads(run.threads)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="trainings-") as folder:
        neighbour = None
        if run.neighbour_s is not None:
            start, end = run.neighbour_s
            neighbour = subprocess.Popen([sys.executable, "-c", BUSY.format(start=start, lasts=end - start)])
        try:
            marks = (train if run.epochs else infer)(run, Path(folder))
        finally:
            if neighbour is not None:
                neighbour.kill()
                neighbour.wait()
    result = {
        "name": name,
        "cls": run.cls,
        "training": run.epochs > 0,
        "cfg": asdict(run),
        "framework": f"torch {torch.__version__}",
        "load": {"start": load_before, "end": os.getloadavg()[0]},  # 1-minute averages; the run's own load counts at the end
    }
    write_whole(labels, lambda file: file.write((json.dumps(result | marks, indent=1) + "\n").encode()))


def main() -> None:
    """Run the named entry of the plan."""
    parser = options(__doc__, page=False)
    parser.add_argument("name", choices=list(plan()), metavar="NAME", help=", ".join(plan()))
    parser.add_argument("--labels", type=Path, required=True, help="the JSON file to write")
    arguments = parser.parse_args()
    execute(arguments.name, plan()[arguments.name], arguments.labels)


if __name__ == "__main__":
    main()
