"""The baseline of all speed comparisons: how the field's published code samples a smoothed classifier.

CERTIFY of Cohen, Rosenfeld and Kolter (2019) as their repository and those after it run it, in our own words: batches
of 1,000 repeated images, fresh Gaussian noise on the device, a float32 forward, and the classes counted on the host
after every batch. Nothing is keyed, folded or fused.
"""

import numpy as np
import torch


def plain_count(model, image, sigma, n, classes, batch=1000):
    """How often each class is returned on n noisy copies of an image [C, H, W] in [0,1], on its device."""
    counts = np.zeros(classes, dtype=int)
    with torch.no_grad():
        while n > 0:
            size = min(batch, n)
            n -= size
            copies = image.repeat((size, 1, 1, 1))
            noise = torch.randn_like(copies) * sigma
            answers = model(copies + noise).argmax(1)
            counts += np.bincount(answers.cpu().numpy(), minlength=classes)
    return counts
