"""`smoothcert pack`."""

from __future__ import annotations

from pathlib import Path

from smoothcert.cli.frame import command


@command("Check and share")
def pack(run: Path, /, *, out: Path | None = None) -> None:
    """One file of a run for others: weights, settings, certificates, report

    Args:
        run: run folder with a finished model and complete certificates
        out: file to write; default: the run folder's name with .zip
    """
    from smoothcert.verification.pack import pack

    made = pack(run, out)
    print(f"wrote {made}; whoever has it can check it: smoothcert verify {made.name}")
