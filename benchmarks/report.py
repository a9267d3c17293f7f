"""How long tables and pages of many runs take, and how much memory: ``python benchmarks/report.py [runs] [rows]``.

First published logs, then as many stores of our own, whose rows are computed again from their counts.
"""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from smoothcert.certification.certifier import certificate_row
from smoothcert.report import Report, certificate_table, read_results
from smoothcert.statistics.laws import law_named
from smoothcert.statistics.procedure import Procedure, certificates

IDENTITY = {
    "sigma": 0.5,
    "n0": 100,
    "n": 100_000,
    "alpha": 0.001,
    "noise": "exact",
    "seed": 0,
    "start": 0,
    "every": 1,
}


def write_log(folder: Path, rows: int, rng: np.random.Generator) -> None:
    lines = ["idx\tlabel\tpredict\tradius\tcorrect\ttime"]
    for idx, radius in enumerate(rng.random(rows) * 1.9):
        lines.append(f"{idx}\t{idx % 10}\t{idx % 10}\t{radius:.3}\t1\t0:00:00.1")
    (folder / "noise_0.50").write_text("\n".join(lines) + "\n")


def write_store(folder: Path, rows: int, rng: np.random.Generator) -> None:
    """Certificates of ten classes with few wrong answers, as a trained network has them."""
    right = 1 - 0.9 * rng.beta(0.3, 1.2, rows)
    shares = np.concatenate(
        [right[:, None], rng.dirichlet([0.3] * 9, rows) * (1 - right[:, None])], axis=1
    )
    counts0, counts = (rng.multinomial(n, shares) for n in (IDENTITY["n0"], IDENTITY["n"]))
    lines = []
    settings = (IDENTITY[name] for name in ("sigma", "n0", "n", "alpha"))
    procedure = Procedure(law_named("gaussian"), *settings)
    path = counts[np.arange(rows), counts0.argmax(1)][:, None]
    for index, certificate in enumerate(certificates(procedure, counts0, counts, path)):
        row = certificate_row(certificate, index=index, label=0, noise="exact", seed=0)
        lines.append("\t".join(map(str, row.values())))
    (folder / "part-0-of-1.tsv").write_text("\n".join(["\t".join(row), *lines]) + "\n")
    manifest = {"identity": IDENTITY, "inputs": rows, "environment": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def main(runs: int = 100, rows: int = 10_000) -> None:
    rng = np.random.default_rng(0)
    for kind, write in (("logs", write_log), ("stores", write_store)):
        with tempfile.TemporaryDirectory() as place:
            folders = [Path(place, f"run{run}") for run in range(runs)]
            for folder in folders:
                folder.mkdir()
                write(folder, rows, rng)
            started = time.perf_counter()
            results = read_results(
                *(folder / "noise_0.50" if kind == "logs" else folder for folder in folders)
            )
            read = time.perf_counter()
            certificate_table(results)
            table = time.perf_counter()
            Report(results).write(Path(place, "report.html"))
            page = time.perf_counter()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{runs} {kind} of {rows} rows, peak memory {memory:.0f} MiB")
        print(f"read {read - started:.1f} s, table {table - read:.1f} s, page {page - table:.1f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
