"""Samples that certification needs by a fixed n, by `--tolerance` and by `--radius`, and what each of them certifies.

    python benchmarks/samples.py RUN [--every 1] [--n 100000] [--device cuda] [--json FILE]

RUN is a run folder with a finished model; the stores are written beside its own (certify/samples-*), and resume.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from smoothcert import CertifyConfig, Selection, certify_dataset, load_dataset
from smoothcert.devices.pick import pick_device
from smoothcert.report import average_certified_radius, certified_accuracy, read_store
from smoothcert.report.measures.analysis import default_radii
from smoothcert.runs.folder import RunFolder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--tolerance", type=float, nargs="+", default=[0.01, 0.05])
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    model, spec = RunFolder(options.run).load_model()
    data = load_dataset(spec.dataset, "test", options.data_dir)
    radii = [float(r) for r in np.arange(0, 4 * spec.sigma, 0.25)]
    procedures = {
        "fixed n": {},
        "fixed n, skip wrong": {"skip_wrong": True},
        **{f"tolerance {t:g}": {"tolerance": t} for t in options.tolerance},
        **{f"radius {r:g} alone": {"radii": [r]} for r in (0.5, 1.0)},
        "all radii of the table": {"radii": radii},
    }
    rows = []
    for name, settings in procedures.items():
        folder = options.run / "certify" / f"samples-{name.replace(' ', '-').replace(',', '')}"
        started = time.perf_counter()
        store = certify_dataset(
            model,
            data,
            folder,
            CertifyConfig(sigma=spec.sigma, n=options.n, **settings),
            selection=Selection(every=options.every),
            device=pick_device(options.device),
            quiet=True,
        )
        seconds = time.perf_counter() - started
        found = read_store(store.folder)
        samples = np.array([int(row["n"]) for row in store.rows()])
        asked = settings.get("radii", default_radii([found]))
        accuracy = dict(
            zip(map(float, asked), certified_accuracy(found, asked).tolist(), strict=True)
        )
        rows.append(
            {
                "procedure": name,
                "inputs": len(samples),
                "mean_samples": float(samples.mean()),
                "median_samples": float(np.median(samples)),
                "seconds": seconds,
                "acr": None if "radii" in settings else float(average_certified_radius(found)),
                "certified_accuracy": {f"{radius:g}": value for radius, value in accuracy.items()},
            }
        )
        fewer = rows[0]["mean_samples"] / samples.mean()
        acr = "     -" if rows[-1]["acr"] is None else f"{rows[-1]['acr']:.4f}"
        shown = "  ".join(f"{radius:g}: {100 * value:.2f}" for radius, value in accuracy.items())
        print(
            f"{name:24} {samples.mean():9.0f} samples ({fewer:5.1f}x fewer) {seconds:7.1f} s  ACR {acr}  {shown}",
            flush=True,
        )
    if options.json is not None:
        about = {
            "command": "python benchmarks/samples.py RUN",
            "every": options.every,
            "n": options.n,
            "alpha": 0.001,
        }
        manifest = store.manifest()
        about |= {"model": manifest.identity["model"], "device": manifest.environment["device"]}
        options.json.write_text(json.dumps({**about, "procedures": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
