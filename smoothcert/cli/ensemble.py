"""`smoothcert ensemble`."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_run
from smoothcert.progress import noun

ABOUT = (
    "Make a run folder of several trained models that answer together, by the mean of their logits."
)


def add_options(parser: ArgumentParser) -> None:
    add_run(parser, several=True)
    parser.add_argument("--out", type=Path, required=True, help="new run folder")


def run(options: Options) -> None:
    from smoothcert.models.build import is_code
    from smoothcert.runs.brought import check_free, keep_model
    from smoothcert.runs.composed import ensemble_of
    from smoothcert.runs.folder import RunFolder

    out = RunFolder(options.out)
    check_free(out)
    brought, spec = ensemble_of(options.runs, trust_code=options.trust_code)
    keep_model(out, brought, spec)
    print(
        f"{out.path}: the mean of the logits of {len(options.runs)} {noun(len(options.runs), 'network')}"
    )
    code = any(is_code(member["architecture"]) for member in spec.options["members"])
    print(f"go on with `smoothcert certify {out.path}{' --trust-code' if code else ''}`")
