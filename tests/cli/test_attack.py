"""`smoothcert attack`: both accuracies, and a loud alarm where an attack contradicts a certificate."""

import re

from tests.cli.commands import fails, run


def test_attack_prints_both_accuracies_and_draws_them(capsys, certified, tmp_path):
    arguments = ["--radius", 0.5, "--noises", 4, "--steps", 3, "--n", 100, "--max", 3, "--against", "six"]
    printed = run(capsys, "attack", certified, *arguments, "--svg", tmp_path / "attack.svg")
    assert re.search(r"0\.5 +3 +\d+\.\d +\d+\.\d +\d+\.\d", printed)
    assert "SOUNDNESS ALARM" not in printed
    assert "under attack: pgd" in (tmp_path / "attack.svg").read_text()
    assert (certified / "attack" / "pgd" / "manifest.json").exists()
    again = ["--radius", 0.5, "--noises", 4, "--steps", 3, "--n", 100, "--max", 3, "--against", "none", "--name", "b"]
    assert "draws certificates too" in fails(capsys, "attack", certified, *again, "--svg", tmp_path / "b.svg")


def test_an_alarm_is_printed_loudly(capsys, certified, tmp_path):
    """A store whose radii claim far too much: the attack contradicts it."""
    folder = certified / "certify" / "wrong"
    folder.mkdir()
    source = certified / "certify" / "six"
    (folder / "manifest.json").write_bytes((source / "manifest.json").read_bytes())
    header, *lines = (source / "part-0-of-1.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    inflated = ["\t".join([*row[:3], "99.0", *row[4:]]) for row in rows]
    (folder / "part-0-of-1.tsv").write_text("\n".join([header, *inflated]) + "\n")
    arguments = ["--radius", 4.0, "--noises", 4, "--steps", 5, "--n", 100, "--max", 6]
    arguments += ["--against", "wrong", "--name", "w"]
    assert "SOUNDNESS ALARM at radius 4: inputs" in run(capsys, "attack", certified, *arguments)
