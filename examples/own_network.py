"""A network, its training and its data, as you may have them; docs/own-network.md certifies it.

    python examples/own_network.py own

writes own/digits.ckpt, a checkpoint, and own/pictures/, a folder of PNG files for each class. Nothing here is made for
smoothcert but the noise in training; only the digits are taken from there, so that nothing need be downloaded.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn


class Digits(nn.Module):
    """Takes images that were normalised by mean 0.5 and standard deviation 0.5."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=2),
            nn.ReLU(),
            nn.Conv2d(8, 16, 5, stride=2),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def train(images: Tensor, labels: Tensor, sigma: float = 0.25, epochs: int = 4) -> Digits:
    """With Gaussian noise on images in [0, 1], before they are normalised."""
    torch.manual_seed(0)
    net = Digits()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(50):
            noisy = images[batch] + sigma * torch.randn_like(images[batch])
            loss = nn.functional.cross_entropy(net((noisy - 0.5) / 0.5), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net


def main(out: Path) -> None:
    from PIL import Image

    from smoothcert import load_dataset

    digits, test = (load_dataset("mnist-mini", split) for split in ("train", "test"))
    net = train(
        torch.from_numpy(digits.images[:2000]).float() / 255, torch.from_numpy(digits.labels[:2000])
    )
    for i in range(200):
        folder = out / "pictures" / str(test.labels[i])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(test.images[i][0]).save(folder / f"{i:04}.png")
    weights = {f"model.{name}": value for name, value in net.state_dict().items()}
    torch.save({"epoch": 4, "state_dict": weights}, out / "digits.ckpt")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "own"))
