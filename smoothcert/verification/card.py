"""The card of a pack: what it is, what is proved, and how to check that."""

from __future__ import annotations

from collections.abc import Sequence

from smoothcert.progress import printable
from smoothcert.report import Certificates, average_certified_radius, certificate_table
from smoothcert.runs.code import code_named
from smoothcert.runs.folder import ModelSpec
from smoothcert.statistics.printed import UNITS, at_least


def card(spec: ModelSpec, results: Sequence[Certificates], name: str) -> str:
    """In Markdown."""
    shape = " x ".join(map(str, spec.shape))
    parts = [
        f"# {spec.architecture}, certified on {spec.dataset}",
        f"- network: {spec.architecture}, {spec.classes} classes, inputs {shape}, normalisation {spec.normalisation}\n"
        f"- {_origin(spec)}\n"
        f"- SHA-256 of the weights: `{spec.weights}`",
        "## Certificates",
        certificate_table(results).to_markdown().strip(),
        *(_store(entry) for entry in results),
        "A certificate says: with probability at least 1 - alpha over the sampling, no change of the input smaller "
        f"than the radius alters the answer of the smoothed classifier; {UNITS}.",
        "## How to check it",
        "```sh\npip install git+https://github.com/smoothcert/smoothcert\n"
        f"smoothcert verify {name}                # recomputes every bound and radius\n"
        f"smoothcert verify {name} --resample 1%  # also certifies some inputs again\n"
        f"smoothcert unpack {name}                # the run folder\n```",
        f"To certify again needs the data{_code(spec)}.",
        "`SHA256SUMS` names every file of the pack, and `smoothcert verify` compares them.",
    ]
    return printable("\n\n".join(parts), "\n") + "\n"


def _origin(spec: ModelSpec) -> str:
    if spec.source:
        return f"trained elsewhere; weights: {spec.source}"
    return f"trained on {spec.dataset} with noise of standard deviation {spec.sigma:g}"


def _code(spec: ModelSpec) -> str:
    names = ", ".join(code_named(spec))
    if not names:
        return ""
    return f", and the code {names}, which is not in the pack: have it at the same place, and say `--trust-code`"


def _store(entry: Certificates) -> str:
    about = entry.identity
    acr = average_certified_radius(entry)
    lines = [
        f"### {entry.source.name}",
        "",
        f"- data: {about.get('dataset')} {about.get('split')}, {entry.rows:,} inputs from {about.get('start')} on, "
        f"every {about.get('every')}, SHA-256 `{about.get('data')}`",
        f"- sigma {entry.sigma:g}, n0 {entry.n0}, n {entry.n}, alpha {entry.alpha:g}, {entry.noise} noise, "
        f"seed {about.get('noise_seed')}, procedure {about.get('procedure', 'fixed')}, "
        f"{entry.norm} radii",
        f"- computed on {about.get('device_type')} in {about.get('precision')}",
        *([] if acr != acr else [f"- average certified radius {at_least(acr, 4)}"]),
    ]
    return "\n".join(lines)
