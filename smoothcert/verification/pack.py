"""A run folder -> one file for others: weights, settings, certificates, report and a card.

The file is a zip without compression and without times, so the same run under the same path gives the same bytes.
"""

from __future__ import annotations

import tempfile
import zipfile
from hashlib import sha256
from pathlib import Path

from smoothcert.errors import StoreError
from smoothcert.files import atomic_write
from smoothcert.report import Certificates, read_results, write_report
from smoothcert.runs.folder import RunFolder
from smoothcert.verification.card import card
from smoothcert.verification.unpack import SUMS
from smoothcert.verification.verify import verify

_TOP = ("config.yaml", "model.json", "weights.safetensors", "metrics.jsonl", "environment.jsonl")
_STORE = ("manifest.json", "part-*.tsv", "checks.jsonl", "verified.json")
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip knows


def pack(run: Path | str, out: Path | str | None = None) -> Path:
    """Write RUN.zip, or `out`. Refused if the run is unfinished, or if a store is incomplete or does not verify."""
    folder = RunFolder(run)
    target = (
        Path(out)
        if out is not None
        else folder.path.resolve().with_name(f"{folder.path.resolve().name}.zip")
    )
    spec = folder.spec()
    if target.exists():
        raise StoreError(
            f"{target} is there already: move it away, or choose another name for the new one"
        )
    verdicts = verify(folder.path, record=False)
    for verdict in verdicts:
        if verdict.answer != "verified":
            first = "".join(f": {problem}" for problem in verdict.problems[:1])
            raise StoreError(
                f"{verdict.store} cannot be packed, {verdict.text}{first}. Finish or repair it first"
            )
    files = {
        path.relative_to(folder.path).as_posix(): path.read_bytes() for path in _paths(folder.path)
    }
    results = read_results(folder.path)
    files["report.html"] = _report(folder, results)
    files["card.md"] = card(spec, results, target.name).encode()
    sums = (f"{sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files))
    files[SUMS] = "".join(sums).encode()
    root = folder.path.resolve().name
    with atomic_write(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(f"{root}/{name}", _TIME)
            # a plain file, as Unix writes it
            member.create_system, member.external_attr = 3, 0o100644 << 16
            archive.writestr(member, files[name])
    return target


def _paths(folder: Path) -> list[Path]:
    """What others need: not the state of the training, nor locks."""
    stores = [path for kind in ("certify", "attack") for path in folder.glob(f"{kind}/*")]
    found = [folder / name for name in _TOP] + [
        path for store in stores for name in _STORE for path in store.glob(name)
    ]
    return [path for path in found if path.is_file()]


def _report(folder: RunFolder, results: list[Certificates]) -> bytes:
    training = {results[0].name: folder.records("metrics.jsonl")}
    with tempfile.TemporaryDirectory(prefix="smoothcert-") as temporary:
        page = Path(temporary) / "report.html"
        write_report(
            results,
            page,
            title=f"Certified robustness of {folder.path.resolve().name}",
            training=training,
        )
        return page.read_bytes()
