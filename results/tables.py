"""Writes the tables "published / ours" of README.md from results/*.json: ``python results/tables.py``."""

import json
import re
from pathlib import Path

from smoothcert.evaluation.reproduce import results_table

ROOT = Path(__file__).parent.parent


def filled(text: str) -> str:
    """The text with every table between ``<!-- results/NAME.json -->`` and ``<!-- end -->`` made anew."""

    def table(match: re.Match[str]) -> str:
        outcomes = json.loads((ROOT / match[1]).read_text())
        return f"<!-- {match[1]} -->\n{results_table(outcomes)}<!-- end -->"

    return re.sub(r"<!-- (results/[\w-]+\.json) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text()))
