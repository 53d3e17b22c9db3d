"""The networks of the DNN-occu paper (Table II, section V) by our names."""

from __future__ import annotations

SEEN = {
    "ViT-T": "vit_tiny_patch16_224",
    "LSTM": "lstm",
    "RNN": "rnn",
    "ResNet-34": "resnet34",
    "ResNet-18": "resnet18",
    "VGG-16": "vgg16",
    "VGG-13": "vgg13",
    "VGG-11": "vgg11",
    "AlexNet": "alexnet",
    "LeNet": "lenet",
}
"""Section V: 80 % of their configurations are fitted on."""

UNSEEN = {
    "ViT-S": "vit_small_patch16_224",
    "BERT": "distilbert",
    "ConvNext-B": "convnext_base",
    "ResNet-50": "resnet50",
}
"""Section V: none of their configurations is fitted on. Its BERT is a DistilBERT (section IV-A)."""

TRANSFORMER_SEEN = "vit_tiny_patch16_224"
"""Table V: fitted on alone."""

TRANSFORMERS_UNSEEN = {
    "Swin Transformer": "swin_small_patch4_window7_224",
    "MaxViT": "maxvit_tiny_tf_224",
    "ViT-S": "vit_small_patch16_224",
    "BERT": "distilbert",
    "GPT-2": "gpt2",
}
"""Table V; the variants of Swin and MaxViT are those of Table II."""

CLIP_SEEN = {"RN50": "clip_rn50", "ViT-B/16": "clip_vit_b16"}
CLIP_UNSEEN = {"ViT-B/32": "clip_vit_b32"}
"""Table IV. What else was fitted on is not said: here the seen networks of section V, as in the protocol ``paper``."""
