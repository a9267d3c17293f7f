"""Two networks that have no kernels of their own, written as such networks usually are: for benchmarks/certify.py."""

import torch
import torch.nn.functional as F
from torch import nn


class WideBlock(nn.Module):
    """BatchNorm and ReLU before each 3x3 convolution; a 1x1 convolution on the shortcut where the shape changes."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        changes = stride > 1 or channels != width
        self.shortcut = nn.Conv2d(channels, width, 1, stride, bias=False) if changes else None

    def forward(self, x):
        y = F.relu(self.norm1(x))
        shortcut = x if self.shortcut is None else self.shortcut(y)
        return shortcut + self.conv2(F.relu(self.norm2(self.conv1(y))))


class WideResNet(nn.Module):
    """WRN-28-4 of Zagoruyko and Komodakis (2016), arXiv:1605.07146: images [B, 3, 32, 32]."""

    def __init__(self, classes=10, depth=28, factor=4):
        super().__init__()
        channels, layers = 16, [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
        for stage, width in enumerate((16 * factor, 32 * factor, 64 * factor)):
            for block in range((depth - 4) // 6):
                layers.append(WideBlock(channels, width, 2 if stage and not block else 1))
                channels = width
        self.layers, self.norm, self.head = (
            nn.Sequential(*layers),
            nn.BatchNorm2d(channels),
            nn.Linear(channels, classes),
        )

    def forward(self, x):
        x = F.relu(self.norm(self.layers(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(batch, tokens, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """ViT-S/16 of Touvron et al. (2021), arXiv:2012.12877: images [B, 3, 224, 224]."""

    def __init__(self, classes=1000, size=224, patch=16, width=384, depth=12, heads=6):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*[TransformerBlock(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])
