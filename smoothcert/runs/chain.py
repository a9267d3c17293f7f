"""The check of each row, a hash of the manifest and of its cells: which rows do not have theirs."""

from __future__ import annotations

from collections.abc import Iterator

from smoothcert.errors import StoreError
from smoothcert.runs.identity import digest_of
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.rows import Lines
from smoothcert.runs.store import row_check


def edited_rows(lines: Lines, manifest: Manifest) -> Iterator[int]:
    """The rows that are not as they were written under this manifest."""
    digest = digest_of(manifest.identity, manifest.inputs)
    for row, text in enumerate(lines.texts):
        cells, _, check = text.rpartition("\t")
        if check != row_check(digest, cells):
            yield row


def require_unedited(lines: Lines, manifest: Manifest, advice: str) -> None:
    """Refuse rows that are not as they were written."""
    for row in edited_rows(lines, manifest):
        raise StoreError(
            f"{lines.path}, line {lines.numbers[row]}: the row or the manifest was edited: {advice}"
        )
