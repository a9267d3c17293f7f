"""`smoothcert status`."""

from __future__ import annotations

import sys
from dataclasses import asdict

from smoothcert.cli.frame import Json, Place, command
from smoothcert.cli.output import print_json
from smoothcert.errors import SmoothcertError, StoreError
from smoothcert.progress import printable


@command("Look")
def status(runs: tuple[Place, ...], /, *, json: Json = False) -> None:
    """What is done, what is missing, how long it will still take

    All that can be told is told, and what is damaged is named after it.

    Args:
        runs: run folders, stores, or folders with some below
    """
    from smoothcert.runs.remote import local, shown
    from smoothcert.runs.state import RunState, run_states
    from smoothcert.runs.status import run_lines
    from smoothcert.runs.together import together

    problems: list[str] = []
    states: list[RunState] = []
    for named in runs:
        try:
            found = run_states(local(named))
        except SmoothcertError as error:
            problems.append(str(error))
            continue
        states += found
        problems += [problem for state in found for problem in state.problems]
        if not json:
            print("\n".join(printable(shown(line)) for state in found for line in run_lines(state)))
    joint = together(states)
    if not json and joint:
        print("\n".join(map(str, joint)))
    if json and states:
        values = [{**asdict(state), "finished": state.finished} for state in states]
        print_json(
            {"runs": values, "together": [asdict(count) for count in joint], "problems": problems}
        )
        for problem in problems:
            print(f"error: {printable(shown(problem))}", file=sys.stderr)
        if problems:
            sys.exit(2)
    elif problems:
        raise StoreError("; ".join(problems))
