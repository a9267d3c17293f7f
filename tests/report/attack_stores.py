"""Stores of attacks, and of the certificates beside them, written by hand."""

from smoothcert.report import read_attack_stores, read_results
from smoothcert.runs.attack_rows import ATTACK_COLUMNS, OLDER_COLUMNS
from smoothcert.runs.manifest import Manifest, Subject
from tests.runs.rows import IDENTITY

ABOUT = {
    "model": "m",
    "network": "n",
    "data": "d",
    "dataset": "mnist-mini",
    "split": "test",
    "sigma": 0.5,
}
RIGHT, WRONG, ABSTAIN = 1, 2, -1


def write_attacks(
    folder, answers, *, columns=ATTACK_COLUMNS, inputs=None, parts=None, tail="", **identity
):
    """RUN/attack/NAME whose rows are `answers`: (idx, radius) -> predict, or a dict of cells; labels are all 1."""
    folder.mkdir(parents=True)
    radii = sorted({radius for _, radius in answers})
    shared = {name: IDENTITY[name] for name in Subject.__struct_fields__ if name in IDENTITY}
    asked = {"attack": "pgd", "steps": 20, "noises": 128, "n": 1000, "beta": 1.0}
    asked |= {"radii": radii, "as_printed": False, "attack_version": 3}
    settings = {**shared, **ABOUT, "classes": 10, **asked, **identity}
    settings = {name: value for name, value in settings.items() if value is not None}
    expected = len(answers) if inputs is None else inputs
    (folder / "manifest.json").write_bytes(Manifest(settings, expected, {}).written())
    rows = [attack_row(*key, answer) for key, answer in answers.items()]
    for shard, part in enumerate(parts or [rows]):
        lines = [
            "\t".join(columns),
            *("\t".join(str(row[name]) for name in columns) for row in part),
        ]
        (folder / f"part-{shard}-of-{len(parts or [rows])}.tsv").write_text(
            "\n".join(lines) + "\n" + tail
        )
    return folder


def attack_row(idx, radius, answer):
    cells = answer if isinstance(answer, dict) else {"predict": answer}
    row = {
        "idx": idx,
        "label": 1,
        "radius": radius,
        "distance": radius,
        "certified_predict": "",
        "certified_radius": "",
    }
    row |= {"base_predict": 1, "votes": 900, "time": "0:00:01"} | cells
    return {"correct": int(row["predict"] == row["label"])} | row


def both(*places):
    return read_attack_stores(*places), read_results(*places)


__all__ = [
    "ABOUT",
    "ABSTAIN",
    "OLDER_COLUMNS",
    "RIGHT",
    "WRONG",
    "attack_row",
    "both",
    "write_attacks",
]
