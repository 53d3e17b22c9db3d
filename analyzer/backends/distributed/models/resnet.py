"""ResNet with its loss (He et al. 2016, table 1), as it is trained today.

A bottleneck's stride is in its 3 x 3 convolution, as torchvision and NVIDIA's "v1.5" have it.
"""

from __future__ import annotations

from torch import Tensor, nn

from epochcast.analyzer.backends.distributed.models.architecture import BOTTLENECK, RESNET_WIDTHS, Architecture
from epochcast.analyzer.backends.distributed.models.ends import CrossEntropy
from epochcast.analyzer.backends.network.blocks import Residual, classifier, conv_norm


class Classifier(nn.Module):
    """The mean over the image, one dense layer and the loss."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.head = classifier(features, classes)
        self.loss = CrossEntropy()

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Shapes (batch, features, h, w) and (batch,) to the scalar loss."""
        return self.loss(self.head(x), labels)


class ResNet(nn.Module):
    """A residual network with its loss: ``model(images, labels)`` is the scalar to train on."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        channels = RESNET_WIDTHS[0]
        self.before = nn.Sequential(conv_norm(3, channels, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1))
        self.blocks = nn.ModuleList()
        for stage, (width, repeats) in enumerate(zip(RESNET_WIDTHS, of.stages, strict=True)):
            outputs = width * (BOTTLENECK if of.bottleneck else 1)
            for repeat in range(repeats):
                stride = 2 if stage and not repeat else 1
                self.blocks.append(_block(channels, width, outputs, stride))
                channels = outputs
        self.after = Classifier(channels, of.classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Images (batch, 3, side, side) and labels (batch,)."""
        x = self.before(images)
        for block in self.blocks:
            x = block(x)
        return self.after(x, labels)


def _block(inputs: int, width: int, outputs: int, stride: int) -> Residual:
    """A bottleneck where ``outputs`` differ from ``width``, else two convolutions of 3 x 3 (figure 5)."""
    if outputs != width:
        body = nn.Sequential(
            conv_norm(inputs, width),
            conv_norm(width, width, 3, stride=stride),
            conv_norm(width, outputs, activation=None),
        )
    else:
        body = nn.Sequential(conv_norm(inputs, width, 3, stride=stride), conv_norm(width, width, 3, activation=None))
    changes = stride != 1 or inputs != outputs
    shortcut = conv_norm(inputs, outputs, stride=stride, activation=None) if changes else None
    return Residual(body, shortcut, activation=nn.ReLU(inplace=True))
