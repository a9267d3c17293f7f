"""Stores as several machines write them, spoilt in one way or another, and what a joint store says."""

import shutil

from smoothcert.runs.chain import edited_rows
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.rows import CHECK
from smoothcert.runs.store import ResultStore
from tests.runs.rows import IDENTITY, row

INPUTS = 20


def make(folder, indices=(), shard=0, shards=1, inputs=INPUTS, host="a", top=990, **changes):
    store = ResultStore(folder)
    identity = {**IDENTITY, "max": inputs, **changes}
    store.claim(Manifest(identity, inputs, {"host": host}))
    if indices:
        with store.writer(shard, shards) as part:
            for index in indices:
                part.add(row(index, top, seconds=1.0 + shard))
    return folder


def said(folder):
    """What the store at a folder says: its rows by input, without the times and checks, each once."""
    rows = [
        {name: cell for name, cell in row.items() if name not in ("time", CHECK)}
        for row in ResultStore(folder).rows()
    ]
    return {int(row["idx"]): row for row in rows}


def content(folder):
    """Every file of a folder that is not hidden."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("[!.]*")
        if path.is_file()
    }


def unbroken(folder):
    store = ResultStore(folder)
    return not any(list(edited_rows(part, store.manifest())) for part in store.parts())


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def drop(path, line):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:line] + lines[line + 1 :]))


def cut_checks(path):
    """The column that chains the rows."""
    rows = [line.split("\t")[:-1] for line in path.read_text().splitlines()]
    path.write_text("".join("\t".join(cells) + "\n" for cells in rows))


def put_elsewhere(path):
    path.rename(path.parent.parent / "elsewhere.tsv")
    path.symlink_to(path.parent.parent / "elsewhere.tsv")


def add(folder, index, **cells):
    """One row more, with other cells and a chain that is whole."""
    with ResultStore(folder).writer(1, 2) as part:
        part.add({**row(index), **cells})


def remake(folder, **changes):
    shutil.rmtree(folder)
    return make(folder, **changes)
