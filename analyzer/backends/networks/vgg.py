"""VGG: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015, Table 1."""

from torch import nn

# Convolutions of 3 x 3 in each of the five stages (columns A, B, D and E of the table); a stage ends in a max pooling.
_CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_CHANNELS = (64, 128, 256, 512, 512)


def _vgg(depth: int, image_size: int, classes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    inputs = 3
    for repeats, outputs in zip(_CONVOLUTIONS[depth], _CHANNELS, strict=True):
        for _ in range(repeats):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    # The first dense layer takes what is left of the image, as in the paper's Keras networks: 7 x 7 at 224 pixels.
    left = image_size // 2 ** len(_CHANNELS)
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        *(nn.Linear(inputs * left * left, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5)),
        *(nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5)),
        nn.Linear(4096, classes),
    )


def vgg11(image_size: int, classes: int) -> nn.Module:
    """Build configuration A: 8 convolutions, 3 dense layers."""
    return _vgg(11, image_size, classes)


def vgg13(image_size: int, classes: int) -> nn.Module:
    """Build configuration B: 10 convolutions, 3 dense layers."""
    return _vgg(13, image_size, classes)


def vgg16(image_size: int, classes: int) -> nn.Module:
    """Build configuration D: 13 convolutions, 3 dense layers."""
    return _vgg(16, image_size, classes)


def vgg19(image_size: int, classes: int) -> nn.Module:
    """Build configuration E: 16 convolutions, 3 dense layers."""
    return _vgg(19, image_size, classes)
