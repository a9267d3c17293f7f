"""The chain of checks in the rows of a part: it names rows that were edited, lost, moved or inserted."""

import pytest

from tests.runs.rows import broken, chained_part, row


@pytest.mark.parametrize(
    ("damage", "lines"),
    [
        (lambda rows: rows, []),
        (lambda rows: [rows[0], rows[1].replace("0:990", "0:991"), *rows[2:]], [3]),
        (lambda rows: [rows[0].replace("1:02:05", "1:02:06"), *rows[1:]], [2]),
        (lambda rows: [rows[0], rows[2], rows[3]], [3]),  # one is lost
        (lambda rows: rows[1:], [2]),  # the first is
        (lambda rows: rows[:2], []),  # the last are: the index set tells
        (lambda rows: [rows[1], rows[0], *rows[2:]], [2, 3, 4]),
        (lambda rows: [*rows[:2], rows[1], *rows[2:]], [4]),  # one is there twice
    ],
)
def test_the_chain_names_edited_lost_moved_and_inserted_rows(store, damage, lines):
    part = chained_part(store, (0, 1, 2, 3))
    header, *rows = part.read_text().splitlines(keepends=True)
    part.write_text("".join([header, *damage(rows)]))
    assert broken(store) == lines


def test_the_chain_goes_on_after_a_torn_line_and_begins_with_the_manifest_and_the_part(store):
    part = chained_part(store, (0, 1))
    part.write_text(part.read_text() + "2\t0\t0")
    with store.writer(0, 1) as writer:
        writer.add(row(2))
    assert store.done() == {0, 1, 2}
    assert broken(store) == []
    renamed = part.rename(part.with_name("part-1-of-2.tsv"))
    assert broken(store) == [2]
    renamed.rename(part)
    manifest = store.folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"alpha": 0.001', '"alpha": 0.01'))
    assert broken(store) == [2]
