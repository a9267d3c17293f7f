"""`smoothcert ensemble`."""

from __future__ import annotations

from pathlib import Path

from smoothcert.cli.frame import Trust, command
from smoothcert.progress import noun


@command("Make")
def ensemble(runs: tuple[Path, ...], /, *, out: Path, trust_code: Trust = False) -> None:
    """Let several models answer together; makes a run folder

    Args:
        runs: run folders with finished models of one data set
        out: new run folder
    """
    from smoothcert.models.build import is_code
    from smoothcert.runs.brought import check_free, keep_model
    from smoothcert.runs.composed import ensemble_of
    from smoothcert.runs.folder import RunFolder

    check_free(RunFolder(out))
    brought, spec = ensemble_of(runs, trust_code=trust_code)
    keep_model(RunFolder(out), brought, spec)
    print(f"{out}: the mean of the logits of {len(runs)} {noun(len(runs), 'network')}")
    code = any(is_code(member["architecture"]) for member in spec.options["members"])
    print(f"go on with `smoothcert certify {out}{' --trust-code' if code else ''}`")
