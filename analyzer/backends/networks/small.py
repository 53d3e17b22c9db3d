"""The small networks: LeNet-5, and two examples of Keras that the paper trains.

Layers and widths as in the authors' earlier work, ddps-lab/profet (`data_generation/workload/model_info.py`). A dense layer
takes whatever is left of the image, so they grow with it: at 256 pixels and 1000 classes MNIST_CNN has 246 million weights.
"""

from torch import nn


def lenet5(image_size: int, classes: int) -> nn.Module:
    """Build LeNet-5: LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998, section II-B.

    As the paper trains it: three input channels, max pooling and ReLU, and all maps joined in the second convolution.
    """
    left = ((image_size - 4) // 2 - 4) // 2
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(16 * left * left, 120), nn.ReLU(inplace=True)),
        *(nn.Linear(120, 84), nn.ReLU(inplace=True)),
        nn.Linear(84, classes),
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
