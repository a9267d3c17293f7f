"""Synthetic JPEG files of ImageNet's size, as class folders and as tar shards.

    python benchmarks/jpegs.py FOLDER [--count 1000]

Pictures of ImageNet are about 500 x 375 pixels and 110 kB. These are smooth random fields of four scales and a little
grain, saved with quality 95: decoding costs what the number of bytes and pixels cost. Below FOLDER are folder/<class>/
and tar/, with the same pictures in the same order.
"""

import argparse
import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

SIZES = ((500, 375), (500, 375), (500, 333), (375, 500), (600, 400))  # width, height
SCALES = ((4, 50), (12, 35), (40, 25), (130, 18))  # cells across, and their weight
CLASSES, PER_SHARD = 10, 250


def picture(i: int) -> bytes:
    rng = np.random.default_rng(i)
    width, height = SIZES[i % len(SIZES)]
    pixels = 120 + 9 * rng.standard_normal((height, width, 1))
    for cells, weight in SCALES:
        coarse = rng.standard_normal((cells * height // width, cells, 3)).astype(np.float32)
        layers = [
            Image.fromarray(coarse[..., c]).resize((width, height), Image.Resampling.BICUBIC)
            for c in range(3)
        ]
        field = np.stack([np.asarray(layer) for layer in layers], axis=-1)
        pixels = pixels + weight * (
            0.6 * field.mean(axis=-1, keepdims=True) + 0.4 * field
        )  # colours go together
    file = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=95)
    return file.getvalue()


def write(root: Path, count: int) -> None:
    """Pictures i in the order of their classes, so that both layouts number them alike."""
    each = -(-count // CLASSES)
    (root / "tar").mkdir(parents=True, exist_ok=True)
    for first in range(0, count, PER_SHARD):
        with tarfile.open(root / "tar" / f"train-{first // PER_SHARD:06}.tar", "w") as tar:
            for i in range(first, min(first + PER_SHARD, count)):
                content, name = picture(i), f"n{i // each:08}"
                path = root / "folder" / name / f"{name}_{i:06}.JPEG"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                for ending, part in (("jpg", content), ("cls", str(i // each).encode())):
                    info = tarfile.TarInfo(f"{path.stem}.{ending}")
                    info.size = len(part)
                    tar.addfile(info, io.BytesIO(part))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    write(options.folder, options.count)


if __name__ == "__main__":
    main()
