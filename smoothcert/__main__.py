"""The command `smoothcert`, also as `python -m smoothcert`. It heeds signals before it imports what takes long."""

from __future__ import annotations

import sys

from smoothcert.interrupts import leave_on_signals

RESUMED = ("attack", "certify", "explain", "merge", "reproduce", "train")
"""The commands that go on where they were. All others keep nothing when they are interrupted, and begin again."""


def main() -> None:
    leave_on_signals("run the same command to go on" if {*sys.argv[1:2]} & {*RESUMED} else "")
    from smoothcert.cli import main as run

    run()


if __name__ == "__main__":
    main()
