"""Settings of every method, and a batch and a network to try them on."""

import torch

from smoothcert.data.batches import Batch
from tests.training.tiny import TinyNet, tiny

EVERY = [
    {"name": "gaussian"},
    {"name": "stability"},
    {"name": "smoothadv", "noises": 2, "steps": 2},
    {"name": "smoothadv", "noises": 2, "steps": 2, "attack": "ddn"},
    {"name": "smoothadv", "noises": 2, "steps": 2, "attack": "stein"},
    {"name": "smoothadv", "noises": 2, "steps": 2, "attack": "expected"},
    {"name": "macer", "noises": 4},
    {"name": "consistency"},
    {"name": "consistency", "base": "smoothadv", "steps": 2},
    {"name": "smoothmix", "noises": 2, "steps": 2, "one_step": True},
    {"name": "catrs", "noises": 2, "steps": 2},
    {"name": "sun", "noises": 2, "steps": 2, "deferred": 0, "threshold": 0.0},
    {"name": "smoothadv", "noises": 2, "steps": 2, "attack": "ddn", "as_printed": True},
    {"name": "consistency", "base": "smoothadv", "steps": 2, "as_printed": True},
    {"name": "smoothmix", "noises": 2, "steps": 2, "one_step": True, "as_printed": True},
    {"name": "catrs", "noises": 2, "steps": 2, "as_printed": True},
]


IDS = ["-".join(str(value) for value in settings.values()) for settings in EVERY]


def batch(size=8, seed=0, dtype=torch.float32):
    data = tiny(size=size, seed=seed)
    images = torch.from_numpy(data.images).to(dtype) / 255
    soft = torch.full((size, 4), 0.1).scatter(1, torch.from_numpy(data.labels)[:, None], 0.7)
    return Batch(
        images,
        torch.from_numpy(data.labels),
        torch.arange(size),
        torch.Generator().manual_seed(3),
        soft,
    )


def network(seed=0):
    torch.manual_seed(seed)
    net = TinyNet()
    net.body[4].p = 0.0  # its draws would hide the differences looked for here
    return net.train()
