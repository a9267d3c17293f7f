"""Manifests that anyone could have written: every command says in one line what is wrong, and nothing is changed."""

import json
import shutil

import pytest

from tests.cli.commands import ends

INFINITE, HUGE = float("inf"), 10**400
DAMAGE = {
    **{
        f"{name} huge": {name: HUGE}
        for name in ("split_alpha", "start", "n", "n0", "alpha", "alpha_each", "inputs")
    },
    **{f"{name} infinite": {name: INFINITE} for name in ("inputs", "sigma", "alpha", "tau")},
    **{f"{name} no number": {name: float("nan")} for name in ("sigma", "alpha_each", "tau")},
    "tolerance huge": {"procedure": "tolerance", "tolerance": HUGE},
    "alpha_each null": {"alpha_each": None},
    "alpha_each text": {"alpha_each": "0.001"},
    "behaviour text": {"behaviour": "alike"},
    "behaviour empty rows": {"behaviour": [[], []]},
    "inputs true": {"inputs": True},
    "inputs text": {"inputs": "6"},
    "n missing": {"n": "absent"},
    "radii missing": {"procedure": "radius"},
    "dimension huge": {"dimension": HUGE},
    "procedure unknown": {"procedure": "magic"},
    "nested": '{"identity": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "nested a little less": '{"identity": {"a": '
    + "[" * 900
    + "]" * 900
    + '}, "inputs": 6, "environment": {}}',
    "long number": '{"identity": {"n": ' + "9" * 5000 + '}, "inputs": 6, "environment": {}}',
    "no text": b"\xff\xfe{}",
}


@pytest.fixture(params=DAMAGE)
def damaged(request, certified, tmp_path):
    """A run whose store `six` has such a manifest."""
    run = shutil.copytree(certified, tmp_path / "a")
    path, damage = run / "certify" / "six" / "manifest.json", DAMAGE[request.param]
    if isinstance(damage, dict):
        values = json.loads(path.read_text())
        for name, value in damage.items():
            place = {"inputs": values}.get(name, values["identity"])
            place[name] = value
            if value == "absent":
                del place[name]
        damage = json.dumps(values)
    path.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    return run


def test_every_command_says_what_is_wrong(damaged, capsys):
    run = damaged
    part = run / "certify" / "six" / "part-0-of-1.tsv"
    before = part.read_bytes()
    for words, code in (
        (["report", run], 2),
        (["verify", run], 1),
        (["status", run], 2),
        (["certify", run, "--max", "6", "--n", "200", "--name", "six", "--device", "cpu"], 2),
    ):
        found, said = ends(capsys, *words)
        assert found == code, (words[0], said)
        if code == 2:
            assert len([line for line in said.err.splitlines() if line.startswith("error: ")]) == 1
        if code == 1:
            assert "problem: " in said.out
            assert ": DIFFERS: " in said.out
    assert part.read_bytes() == before
