"""Networks without branches: VGG, and two examples of Keras that the paper trains.

VGG: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015, Table 1. Layers
and widths of the small ones are as in the authors' earlier work, ddps-lab/profet (`data_generation/workload/model_info.py`).
A dense layer takes what is left of the image, so they grow with it: at 256 pixels and 1000 classes MNIST_CNN has 246
million weights.
"""

from torch import nn

# Convolutions of 3 x 3 in each of the five stages (columns A, B, D and E of the table); a stage ends in a max pooling.
_CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_CHANNELS = (64, 128, 256, 512, 512)


def vgg(depth: int, image_size: int, classes: int) -> nn.Module:
    """Build the network of 11, 13, 16 or 19 layers, the last three of them dense: configurations A, B, D and E."""
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


def mnist_cnn(image_size: int, classes: int) -> nn.Module:
    """Build the "Simple MNIST convnet" of the Keras examples: two convolutions and one dense layer."""
    left = ((image_size - 2) // 2 - 2) // 2
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(64 * left * left, classes),
    )


def cifar10_cnn(image_size: int, classes: int) -> nn.Module:
    """Build the CIFAR-10 convnet of the Keras examples: four convolutions and two dense layers."""
    left = ((image_size - 2) // 2 - 2) // 2
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(32, 32, 3), nn.ReLU(inplace=True)),
        *(nn.MaxPool2d(2), nn.Dropout(0.25)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(64, 64, 3), nn.ReLU(inplace=True)),
        *(nn.MaxPool2d(2), nn.Dropout(0.25)),
        nn.Flatten(),
        *(nn.Linear(64 * left * left, 512), nn.ReLU(inplace=True), nn.Dropout(0.5)),
        nn.Linear(512, classes),
    )
