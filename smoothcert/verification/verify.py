"""verify(): is a store whole, unchanged, and are its claims no more than its counts prove?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from smoothcert.errors import StoreError
from smoothcert.runs.rows import read_lines
from smoothcert.runs.rules import read_rules
from smoothcert.runs.store import ResultStore
from smoothcert.verification.chain import check_chain
from smoothcert.verification.hashes import check_data, check_seed, check_weights
from smoothcert.verification.resample import Resampling
from smoothcert.verification.rows import Rows, check_rows, read_rows
from smoothcert.verification.unpack import unpack
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
        found = []
        for store in _stores(folder, place):
            name = (place / store.relative_to(folder)).as_posix()
            found.append(verify_store(store, name, data_dir, resampling))
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
    folder: Path, name: str, data_dir: Path | None, resampling: Resampling | None
) -> Verdict:
    store = ResultStore(folder)
    try:
        verdict = Verdict(folder, name, store.fingerprint())
    except OSError as error:
        raise StoreError(f"{error.filename}: cannot be read ({error.strerror})") from error
    try:
        manifest = store.manifest()
        identity, verdict.inputs = dict(manifest.identity), manifest.inputs
        rules = read_rules(manifest)
    except StoreError as error:
        verdict.problems.append(str(error))
        return verdict
    rows = list(_readable(verdict, store))
    for part in rows:
        problems, notes = check_rows(part, rules)
        verdict.problems += problems
        verdict.notes += notes
    if len({bool((part.label < 0).any()) for part in rows if len(part.label)}) > 1:
        verdict.problems.append(
            "some parts have labels and others none: they are about different data"
        )
    _check_indices(verdict, rows, rules.inputs)
    check_weights(verdict, identity)
    check_seed(verdict, identity)
    data = check_data(verdict, identity, rows, data_dir)
    if resampling is not None and verdict.problems:
        verdict.notes.append("nothing was sampled again, since the store differs already")
    elif resampling is not None:
        resampling.check(verdict, manifest, data)
    return verdict


def _readable(verdict: Verdict, store: ResultStore) -> Iterator[Rows]:
    """The rows of each part, whose chain is checked on the way."""
    identity = store.manifest().identity
    for path in store.part_paths():
        try:
            lines = read_lines(path)
            rows = read_rows(lines)
        except StoreError as error:
            verdict.problems.append(str(error))
            continue
        check_chain(verdict, lines, identity)
        if lines.torn:
            verdict.notes.append(f"{path.name}: an unfinished last line was left out")
        verdict.rows += len(rows.idx)
        yield rows


def _check_indices(verdict: Verdict, rows: list[Rows], wanted: range) -> None:
    """Each input of the manifest once, and no other."""
    seen: dict[int, tuple[str, object]] = {}
    for part in rows:
        for row, (place, index) in enumerate(zip(part.places, part.idx.tolist(), strict=True)):
            says = tuple(str(column[row]) for column in part.said)
            if index not in wanted:
                verdict.problems.append(f"{place}: the manifest has no such input")
            if index not in seen:
                seen[index] = place, says
            elif seen[index][1] == says:
                verdict.notes.append(f"{place}: the same as {seen[index][0]}")
            else:
                verdict.problems.append(f"{place}: another result than {seen[index][0]}")
    verdict.missing = [index for index in wanted if index not in seen]
