"""The networks by name, as plain text, so that listing them does not import PyTorch."""

from __future__ import annotations

MODELS: dict[str, str] = {
    "lenet": "LeNet for 28x28 grey images (MNIST, Fashion-MNIST), 0.43 M parameters",
    "resnet20": "CIFAR ResNet-20 for 32x32 colour images, 0.27 M parameters; so any resnet<6n+2> but 50",
    "resnet110": "CIFAR ResNet-110 for 32x32 colour images, 1.73 M parameters",
    "resnet50": "ImageNet ResNet-50 for 224x224 colour images, 25.6 M parameters",
    "dncnn": "DnCNN-17, a denoiser of any colour images (options: depth, width, channels), 0.56 M parameters",
    "PACKAGE.MODULE:NAME": "your own network, called with the number of classes if it takes one",
    "FILE.py:NAME": "the same in a file",
    "hf:NAME": "an image classifier of transformers, by its name on the hub or its folder (extra: hf)",
    "timm:NAME": "a network of timm (extra: timm)",
    "torchvision:NAME": "a network of torchvision (extra: torchvision)",
}
