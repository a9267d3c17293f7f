"""Writes the tables of README.md and results/README.md from results/*.json: ``python results/tables.py``.

A table stands between a comment that names its files and ``<!-- end -->``. After a colon, the comment may name the rows
to show: ``<!-- results/mnist.json: gaussian-0.50 catrs-0.50 -->``.
"""

import json
import re
from pathlib import Path

from smoothcert.evaluation.reproduce import results_table

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "results" / "README.md")

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
        contents = [json.loads((ROOT / name).read_text()) for name in match[1].split()]
        rows = match[2].split() if match[2] else None
        if "results/cifar10.json" in match[1]:
            made = paired_table(contents[0])
        else:
            made = (
                speed_table(*contents)
                if len(contents) == 2
                else results_table(chosen(contents[0], rows))
            )
        return f"{match[0].splitlines()[0]}\n{made}<!-- end -->"

    return re.sub(
        r"<!-- ((?:results/[\w-]+\.json ?)+)(?:: ([^>]*))?-->\n.*?<!-- end -->",
        table,
        text,
        flags=re.DOTALL,
    )


def chosen(outcomes: list[dict], rows: list[str] | None) -> list[dict]:
    """All outcomes, or those of the named rows in that order; a row that is not there is an error."""
    if rows is None:
        return outcomes
    found = {outcome["recipe"].split("/")[1]: outcome for outcome in outcomes}
    return [found[row] for row in rows]


def paired_table(recipes: list[dict]) -> str:
    """Every seed beside the log on the same images; a recipe of several seeds has a line for their mean, too."""
    lines = [
        "| recipe | seed | trained in | ACR | log | difference, 95 % | reproduced |",
        "|---|---|---|---|---|---|---|",
    ]
    for recipe in recipes:
        log, verdict = recipe["log"]["acr"], "yes" if recipe["reproduced"] else "no"
        several = len(recipe["seeds"]) > 1
        for seed in recipe["seeds"]:
            gap = seed["difference"]
            cells = [
                f"`{recipe['recipe']}`",
                seed["seed"],
                seed["training"]["precision"],
                f"{seed['acr']:.3f}",
            ]
            cells += [
                f"{log:.3f}",
                f"{signed(gap['value'])} ({signed(gap['low'])} to {signed(gap['high'])})",
            ]
            lines.append(f"| {' | '.join(map(str, cells))} | {'' if several else verdict} |")
        if several:
            cells = [f"`{recipe['recipe']}`", "mean", "", f"{recipe['acr']:.3f}", f"{log:.3f}"]
            lines.append(f"| {' | '.join(cells)} | {signed(recipe['difference'])} | {verdict} |")
    return "\n".join(lines) + "\n"


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


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
    for page in PAGES:
        page.write_text(filled(page.read_text()))
