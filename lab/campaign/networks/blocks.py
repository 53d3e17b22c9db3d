"""What networks are put together from: convolutions with batch normalisation, branches, residual connections."""

from torch import Tensor, add, cat, nn


class Branches(nn.Module):
    """Give the same input to every branch, and join what they answer along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (n, channels, h, w) to (n, sum of the branches' channels, h', w')."""
        return cat([branch(x) for branch in self.branches], dim=1)


class Residual(nn.Module):
    """``activation(shortcut(x) + scale * body(x))``: He et al. 2016, equation 1; the scale is Inception-ResNet's."""

    def __init__(
        self, body: nn.Module, shortcut: nn.Module | None = None, *, activation: nn.Module | None = None, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut or nn.Identity()
        self.activation = activation or nn.Identity()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Shape (n, channels, h, w) to what body and shortcut agree on."""
        return self.activation(add(self.shortcut(x), self.body(x), alpha=self.scale))


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, int] = 1,
    *,
    stride: int = 1,
    padding: int | tuple[int, int] | None = None,
    groups: int = 1,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """Build a convolution without bias, its batch normalisation and its activation; ``padding`` keeps the size if not given."""
    height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    same = (height // 2, width // 2)
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, same if padding is None else padding, groups=groups, bias=False)
    layers = [convolution, nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([activation(inplace=True)] if activation else []))


def classifier(features: int, classes: int) -> nn.Sequential:
    """Build the head of all but the oldest networks: the mean over the image and one dense layer; it answers logits."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, classes))
