"""`smoothcert status`."""

from __future__ import annotations

import sys
from dataclasses import asdict

from jsonargparse import ArgumentParser

from smoothcert.cli.options import Options, add_json, place, print_json
from smoothcert.errors import SmoothcertError, StoreError
from smoothcert.progress import printable

ABOUT = "Tell what is done and what is missing, how fast it goes, and how long it will still take."


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "runs", type=place, nargs="+", help="run folders, stores, or folders with some below"
    )
    add_json(parser)


def run(options: Options) -> None:
    """All that can be told is told, and what is damaged is named after it."""
    from smoothcert.runs.remote import local, shown
    from smoothcert.runs.state import RunState, run_states
    from smoothcert.runs.status import run_lines
    from smoothcert.runs.together import together

    problems: list[str] = []
    states: list[RunState] = []
    for named in options.runs:
        try:
            found = run_states(local(named))
        except SmoothcertError as error:
            problems.append(str(error))
            continue
        states += found
        problems += [problem for state in found for problem in state.problems]
        if not options.json:
            print("\n".join(printable(shown(line)) for state in found for line in run_lines(state)))
    joint = together(states)
    if not options.json and joint:
        print("\n".join(map(str, joint)))
    if options.json and states:
        runs = [{**asdict(state), "finished": state.finished} for state in states]
        print_json(
            {"runs": runs, "together": [asdict(count) for count in joint], "problems": problems}
        )
        for problem in problems:
            print(f"error: {printable(shown(problem))}", file=sys.stderr)
        if problems:
            sys.exit(2)
    elif problems:
        raise StoreError("; ".join(problems))
