"""`smoothcert unpack`."""

from __future__ import annotations

from pathlib import Path

from smoothcert.cli.frame import command


@command("Check and share")
def unpack(pack: Path, /, *, out: Path = Path()) -> None:
    """The run folder of a pack

    Args:
        pack: file made by `smoothcert pack`
        out: folder to unpack into
    """
    from smoothcert.verification.unpack import unpack

    made = unpack(pack, out)
    print(f"{made}: check it with `smoothcert verify {made}`")
