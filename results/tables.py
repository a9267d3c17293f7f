"""Writes the tables of README.md, results/README.md and docs/ledger.md from results/: ``python results/tables.py``.

A table stands between a comment that names its files and ``<!-- end -->``. After a colon, the comment may name the
recipes to show: ``<!-- results/mnist.jsonl: mnist/gaussian-0.50 mnist/catrs-0.50 -->``.
"""

import json
import re
from pathlib import Path

from smoothcert.published.compared import compared_recipes
from smoothcert.published.ledger import entries, page
from smoothcert.published.measured import read_measured
from smoothcert.published.speeds import Speeds

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "results" / "README.md", ROOT / "docs" / "ledger.md")

CERTIFIED = {
    "lenet": "certify one MNIST image, LeNet, n = 100,000",
    "resnet110": "certify one CIFAR-10 image, ResNet-110, n = 100,000",
    "resnet50": "certify one ImageNet image, ResNet-50, n = 10,000",
    "networks.VisionTransformer": "certify one ImageNet image, ViT-S/16, n = 10,000",
}
TRAINED = {
    "mnist/smoothmix-1.00-onestep": "one epoch of SmoothMix (T = 8, m = 4) on MNIST, LeNet",
    "cifar10/catrs-0.50": "one epoch of CAT-RS on CIFAR-10, ResNet-110",
}


def filled(text: str) -> str:
    """The text with every table made anew."""

    def table(match: re.Match[str]) -> str:
        files = [path for name in match[1].split() for path in sorted(ROOT.glob(name))]
        rows = match[2].split() if match[2] else ()
        if "ledger" in rows:
            measured = read_measured(files)
            speeds = Speeds(measured, ROOT.glob("results/[tc]*-h200.json"))
            made = page(entries(measured, speeds), measured)
        elif files[0].suffix == ".jsonl":
            made = compared_recipes(read_measured(files), rows)
        else:
            made = speed_table(*(json.loads(path.read_text()) for path in files))
        return f"{match[0].splitlines()[0]}\n{made}<!-- end -->"

    names = r"<!-- ((?:results/[\w*-]+\.jsonl? ?)+)(?:: ([^>]*))?-->\n.*?<!-- end -->"
    return re.sub(names, table, text, flags=re.DOTALL)


def speed_table(certification: dict, training: dict) -> str:
    """A few rows of two benchmarks, in seconds, beside what others need."""
    networks = {entry["network"]: entry for entry in certification["networks"]}
    epochs = {entry["recipe"]: entry for entry in training["rows"] if entry["precision"] == "tf32"}
    pairs = [(text, networks[name], "baseline_seconds") for name, text in CERTIFIED.items()]
    pairs += [(text, epochs[name], "official_seconds") for name, text in TRAINED.items()]
    lines = ["| seconds | other | smoothcert | ratio |", "|---|---|---|---|"]
    for text, entry, other in pairs:
        lines.append(
            f"| {text} | {entry[other]:.3g} | {entry['seconds']:.3g} | {entry['ratio']:.2g}× |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text()))
