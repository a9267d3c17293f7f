"""A hundred runs of ten thousand certificates: the table comes, and memory stays bounded."""

import os
import subprocess
import sys

CODE = """
import resource, sys
from pathlib import Path
from smoothcert.report import certificate_table, read_results

def peak():  # in MB; ru_maxrss counts kB on Linux, bytes on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)

before = peak()
table = certificate_table(read_results(*sorted(Path(sys.argv[1]).glob("*.tsv"))))
print(len(table.rows), len(set(table.rows)), round(peak() - before))
"""


def test_a_hundred_runs(write_log, tmp_path):
    first = write_log(
        [(i, i % 10, i % 10, f"{i % 997 / 500:.3}") for i in range(10_000)], "logs/run-000.tsv"
    )
    for k in range(1, 100):
        os.link(first, first.with_name(f"run-{k:03}.tsv"))  # another path, the same 300 kB
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "logs")],
        capture_output=True,
        text=True,
        check=True,
    )
    rows, distinct, grown = map(int, done.stdout.split())
    assert (rows, distinct) == (100, 100)  # the names differ
    assert grown < 150  # about 40 MB of columns, and the text of one log at a time
