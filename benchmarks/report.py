"""How long tables and pages of many runs take, and how much memory: ``python benchmarks/report.py [runs] [rows]``."""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from smoothcert.report import certificate_table, read_results, write_report


def main(runs: int = 100, rows: int = 10_000) -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
            for idx, radius in enumerate(rng.random(rows) * 1.9):
                lines.append(f"{idx}\t{idx % 10}\t{idx % 10}\t{radius:.3}\t1\t0:00:00.1")
            Path(folder, f"run{run}").mkdir()
            Path(folder, f"run{run}", "noise_0.50").write_text("\n".join(lines) + "\n")
        started = time.perf_counter()
        results = read_results(*sorted(Path(folder).glob("run*/*")))
        read = time.perf_counter()
        certificate_table(results)
        table = time.perf_counter()
        write_report(results, Path(folder, "report.html"))
        page = time.perf_counter()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{runs} runs of {rows} rows, peak memory {memory:.0f} MiB")
    print(f"read {read - started:.1f} s, table {table - read:.1f} s, page {page - table:.1f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
