"""The paper's networks: as large as published, trainable at every image size of the paper's grid, refused with a reason."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")

from lab.campaign.networks import build  # noqa: E402

# The paper's section IV-A: its models and its image sizes.
PAPER = [
    *("VGG19", "VGG16", "VGG13", "VGG11", "MobileNetV2", "InceptionV3", "InceptionResNetV2"),
    *("ResNet50", "ResNet34", "ResNet18", "ResNetSmall", "LeNet5", "CIFAR10_CNN", "MNIST_CNN"),
]
IMAGE_SIZES = (32, 64, 128, 224, 256)

# Trainable weights at 224 pixels and 1000 classes as torchvision's documentation states them. The Inceptions as Keras has them
# (without auxiliary head), plus the scales that Keras leaves out of their normalisations: 17 216 and 30 272.
PUBLISHED = {
    "VGG11": 132_863_336,
    "VGG13": 133_047_848,
    "VGG16": 138_357_544,
    "VGG19": 143_667_240,
    "ResNet18": 11_689_512,
    "ResNet34": 21_797_672,
    "ResNet50": 25_557_032,
    "MobileNetV2": 3_504_872,
    "InceptionV3": 23_817_352 + 17_216,
    "InceptionResNetV2": 55_813_192 + 30_272,
}


def weights(name: str, image_size: int, classes: int) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(name, image_size, classes).parameters())


def test_networks_have_as_many_weights_as_published() -> None:
    assert {name: weights(name, 224, 1000) for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("name", PAPER)
def test_networks_train_at_every_image_size_of_the_paper(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward at each size, where layers might not fit; backward, which follows the same operators, at the smallest.

    Normalisations take most of the time and fit any image: that they fit their channels is proven at the smallest size.
    """
    for image_size in sorted(IMAGE_SIZES):
        with torch.device("meta"):
            network = build(name, image_size, classes=7)
        smallest = image_size == min(IMAGE_SIZES)
        with torch.set_grad_enabled(smallest):
            logits = network(torch.empty(2, 3, image_size, image_size, device="meta"))
        assert logits.shape == (2, 7), image_size
        if smallest:
            logits.sum().backward()
            assert all(parameter.grad is not None for parameter in network.parameters())
            monkeypatch.setattr(torch.nn.BatchNorm2d, "forward", lambda _, x: x)
