"""verify(): is a store whole, unchanged, and are its claims no more than its counts prove?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from smoothcert.errors import StoreError
from smoothcert.runs.check import check_store
from smoothcert.runs.store import ResultStore
from smoothcert.verification.hashes import check_data, check_run
from smoothcert.verification.resample import Resampling
from smoothcert.verification.unpack import altered_members, unpack
from smoothcert.verification.verdict import Verdict


def verify(
    place: Path | str,
    *,
    data_dir: Path | None = None,
    resampling: Resampling | None = None,
    record: bool = True,
) -> list[Verdict]:
    """Check a store, all certificate stores of a run folder, or a pack; one verdict for each store.

    With `resampling`, some inputs are certified again with the same noise. With `record`, each verdict is written into
    its store; a pack stays as it is.
    """
    place = Path(place)
    with _opened(place) as folder:
        altered = altered_members(folder) if place.is_file() else []
        found = []
        for store in _stores(folder, place):
            name = (place / store.relative_to(folder)).as_posix()
            found.append(verify_store(store, name, data_dir, resampling, altered))
        if record and folder == place:
            for verdict in found:
                verdict.save()
    return found


@contextmanager
def _opened(place: Path) -> Iterator[Path]:
    if not place.is_file():
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="smoothcert-") as temporary:
        yield unpack(place, Path(temporary))


def _stores(folder: Path, place: Path) -> list[Path]:
    if (folder / "manifest.json").is_file():
        return [folder]
    stores = sorted(path.parent for path in folder.glob("certify/*/manifest.json"))
    if not stores:
        raise StoreError(
            f"{place}: expected a certificate store, a run folder with some, or a pack; found none"
        )
    return stores


def verify_store(
    folder: Path,
    name: str,
    data_dir: Path | None,
    resampling: Resampling | None,
    problems: Sequence[str] = (),
) -> Verdict:
    """`problems` are known already."""
    try:
        verdict = Verdict(folder, name, ResultStore(folder).fingerprint())
    except OSError as error:
        raise StoreError(f"{error.filename}: cannot be read ({error.strerror})") from error
    try:
        found = check_store(folder)
    except StoreError as error:
        verdict.problems += [*problems, str(error)]
        return verdict
    verdict.problems, verdict.notes = [*problems, *found.problems], found.notes
    verdict.inputs, verdict.missing = len(found.inputs), found.missing
    verdict.rows = found.rows
    identity = dict(found.manifest.identity)
    check_run(verdict, identity)
    data = check_data(verdict, identity, found, data_dir)
    if resampling is not None and verdict.problems:
        verdict.notes.append("nothing was sampled again, since the store differs already")
    elif resampling is not None:
        resampling.check(verdict, found.manifest, data)
    return verdict
