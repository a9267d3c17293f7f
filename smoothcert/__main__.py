"""The command `smoothcert`, also as `python -m smoothcert`. It heeds signals before it imports what takes long."""

from __future__ import annotations

from smoothcert.interrupts import leave_on_signals


def main() -> None:
    leave_on_signals()
    from smoothcert.cli import main as run

    run()


if __name__ == "__main__":
    main()
