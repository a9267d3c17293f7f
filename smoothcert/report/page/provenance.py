"""Where the numbers of a run come from, and the commands that give them again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcert.config import CertifyConfig, as_options
from smoothcert.progress import printable
from smoothcert.report.measures.analysis import clean_accuracy, median_radius, proved
from smoothcert.report.measures.confidence import saturation
from smoothcert.report.measures.published_comparison import find_published
from smoothcert.report.read.certificates import Certificates
from smoothcert.runs.checks import checks_in_words
from smoothcert.runs.remote import is_remote, shown
from smoothcert.runs.selection import Selection
from smoothcert.statistics.printed import at_most, in_percent, number
from smoothcert.statistics.shown import claim


@dataclass(frozen=True)
class Provenance:
    label: str
    settings: dict[str, str]
    commands: str
    config: str  # YAML; empty where there is none
    manifest: str  # JSON; empty where there is none


def provenance(c: Certificates, label: str, asked: Sequence[str] = ()) -> Provenance:
    """`asked` are the options of `smoothcert report` by which the whole page was made, as far as they change a run."""
    down = proved([c])
    identity, environment = (_part(c.manifest, key) for key in ("identity", "environment"))
    clean, median, limit, published = (
        clean_accuracy(c),
        median_radius(c),
        saturation(c),
        find_published(c),
    )
    settings = {
        "source": shown(c.source.as_posix()),
        "inputs": f"{c.rows} of {c.expected}" if c.expected is not None else str(c.rows),
        "noise level σ": _shown(c.sigma),
        "samples to select the class n0": _shown(c.n0),
        "samples to certify n": _shown(c.n),
        "failure probability α": _shown(c.alpha),
        "saturation radius": "not known" if limit is None else at_most(limit, 4),
        "noise": _shown(c.noise),
        "seed of the certification": _seed(identity),
        "seed of the training": _shown((c.config or {}).get("seed")),
        "data": " ".join(str(identity[key]) for key in ("dataset", "split") if key in identity)
        or "not recorded",
        "versions": ", ".join(
            f"{key} {value}" for key, value in environment.items() if key in _VERSIONS
        )
        or "not recorded",
        "device": _shown(environment.get("device")),
        "clean accuracy": "not tested" if np.isnan(clean) else f"{in_percent(clean, down)} %",
        "median radius of correct inputs": number(median, 3, down) or "none",
    }
    if c.sigma and c.alpha and c.noise:
        whose = "for all inputs at once" if identity.get("simultaneous") else "for each input alone"
        closer = f"whose {c.norm} distance from the input is below its radius"
        proof = claim(c.sigma, c.noise, "the certified class", closer)
        settings["what is proved"] = (
            f"{whose}: with probability at least {1 - c.alpha:.10g} over the noisy copies, {proof}"
        )
    if not c.labelled:
        settings |= dict.fromkeys(
            ("clean accuracy", "median radius of correct inputs"), "not known: no labels"
        )
    for key, words in (
        ("preparation", "preparation of the pictures"),
        ("licence", "licence of the data"),
    ):
        if environment.get(key):
            settings[words] = str(environment[key])
    if c.manifest is not None and (checks := checks_in_words(c.source)):
        settings["the network treats each image alone"] = checks
    if c.norm != "l2":
        settings["norm of the radii"] = c.norm
    if published is not None:
        settings["published value"] = f"{published.text(published.acr)}, {published.cited}"
    manifest = "" if c.manifest is None else json.dumps(c.manifest, indent=2, ensure_ascii=False)
    return Provenance(label, settings, _commands(c, identity, asked), _yaml(c.config), manifest)


def _commands(c: Certificates, identity: dict[str, Any], asked: Sequence[str]) -> str:
    """Train, certify and report again; a log of the field can only be reported."""
    lines = []
    folder = c.source
    if identity and folder.parent.name == "certify":
        run = shown(folder.parent.parent.as_posix())
        if c.config is not None:
            out = (
                run.rsplit("/", 1)[-1] if is_remote(run) else run
            )  # training writes to this machine
            lines.append(_line("train", f"{run}/config.yaml", "--out", f"{out}-again"))
        lines.append(_line("certify", run, "--name", folder.name, *_options(c)))
    return "\n".join([*lines, _line("report", shown(folder.as_posix()), *_analysis(c), *asked)])


def _analysis(c: Certificates) -> list[str]:
    """The words of `smoothcert report` by which the stored counts were analysed again, if they were."""
    stored = c.identity.get("alpha")
    words = [] if stored in (None, c.alpha) else ["--alpha", str(c.alpha)]
    words += [] if c.bound == "binary" else ["--bound", c.bound]
    return words + (
        [] if c.dimension is None else ["--norm", "linf", "--dimension", str(c.dimension)]
    )


def _options(c: Certificates) -> list[str]:
    """The words of `smoothcert certify` that ask for these certificates."""
    identity = c.identity
    if c.corruption is not None:
        kind, severity = c.corruption
        graded = f"/{severity}" if severity else ""
        words = ["--data", f"{identity['dataset']}:{kind}{graded}"]
    else:
        words = ["--split", str(identity["split"])] if "split" in identity else []
    return [*words, *as_options(Selection, identity), *as_options(CertifyConfig, identity)]


def _line(*words: str) -> str:
    return shlex.join(["smoothcert", *map(printable, words)])


def _part(manifest: dict[str, Any] | None, key: str) -> dict[str, Any]:
    part = (manifest or {}).get(key)
    return part if isinstance(part, dict) else {}


def _seed(identity: dict[str, Any]) -> str:
    """The number that keyed the noise, and whose choice it was."""
    seed, asked = (identity.get(name) for name in ("noise_seed", "seed"))
    if seed is None:
        return _shown(asked)
    return f"{seed} ({'asked for' if asked is not None else 'by weights, data and procedure'})"


def _shown(value: object) -> str:
    return (
        "not recorded"
        if value is None
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _yaml(config: dict[str, Any] | None) -> str:
    if config is None:
        return ""
    import yaml

    return str(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))


_VERSIONS = ("smoothcert", "torch", "numpy", "scipy", "python", "cuda")
