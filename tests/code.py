"""Run folders whose network is code of a test, as commands make them."""

import dataclasses
import json

from smoothcert.runs.code import hashes_of
from smoothcert.runs.folder import RunFolder


def note_code(run, **changes):
    """Write into model.json what the code that it names is now."""
    spec = dataclasses.replace(RunFolder(run).spec(), **changes)
    code, folders = hashes_of(spec, run.resolve())
    spec = dataclasses.replace(spec, code=code, folders=folders)
    (run / "model.json").write_text(json.dumps(dataclasses.asdict(spec)))
