"""DnCNN: a plain convolutional network that takes the noise out of an image."""

from __future__ import annotations

from torch import Tensor, nn

from smoothcert.errors import ConfigError


class DnCNN(nn.Module):
    """Zhang et al. (2017, arXiv:1608.03981) as Salman et al. (arXiv:2003.01908) train it: x minus the noise in it.

    `depth` 3x3 convolutions, `width` channels wide; all but the first and the last with BatchNorm. The paper has depth
    17 and width 64, or 128 (wide). Orthogonal initial weights, and a last layer of zeros: it starts as the identity.
    """

    def __init__(self, depth: int = 17, width: int = 64, channels: int = 3) -> None:
        super().__init__()
        if depth < 2 or width < 1 or channels < 1:
            raise ConfigError(
                f"a DnCNN has depth 2 or more, and width and channels 1 or more, found {depth}, {width} and {channels}"
            )
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            inner = nn.Conv2d(width, width, 3, padding=1, bias=False)
            layers += [inner, nn.BatchNorm2d(width, eps=1e-4, momentum=0.95), nn.ReLU()]
        last = nn.Conv2d(width, channels, 3, padding=1, bias=False)
        self.net = nn.Sequential(*layers, last)
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                nn.init.orthogonal_(layer.weight)
        nn.init.zeros_(last.weight)

    def forward(self, x: Tensor) -> Tensor:
        noise: Tensor = self.net(x)
        return x - noise
