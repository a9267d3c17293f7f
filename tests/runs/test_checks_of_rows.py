"""The check of each row: it names rows that were edited, or that belong to other settings."""

import pytest

from tests.runs.rows import edited, row, written_part


@pytest.mark.parametrize(
    ("damage", "lines"),
    [
        (lambda rows: rows, []),
        (lambda rows: [rows[0], rows[1].replace("0:990", "0:991"), *rows[2:]], [3]),
        (lambda rows: [rows[0].replace("1:02:05", "1:02:06"), *rows[1:]], [2]),
        (lambda rows: [rows[0], rows[2], rows[3]], []),  # one is lost: the index set tells
        (lambda rows: [rows[1], rows[0], *rows[2:]], []),  # order says nothing
        (lambda rows: [*rows[:2], rows[1], *rows[2:]], []),  # it counts once
    ],
)
def test_the_check_names_edited_rows(store, damage, lines):
    part = written_part(store, (0, 1, 2, 3))
    header, *rows = part.read_text().splitlines(keepends=True)
    part.write_text("".join([header, *damage(rows)]))
    assert edited(store) == lines


def test_rows_may_lie_in_any_part_of_a_store_with_their_settings_and_in_no_other(store):
    part = written_part(store, (0, 1))
    part.write_text(part.read_text() + "2\t0\t0")
    with store.writer(0, 1) as writer:
        writer.add(row(2))
    assert store.done() == {0, 1, 2}
    assert edited(store) == []
    part.rename(part.with_name("part-1-of-2.tsv"))
    assert edited(store) == []
    manifest = store.folder / "manifest.json"
    for old, new in (('"alpha": 0.001', '"alpha": 0.01'), ('"model": "m"', '"model": "n"')):
        whole = manifest.read_text()
        manifest.write_text(whole.replace(old, new))
        assert edited(store) == [2, 3, 4]
        manifest.write_text(whole)
