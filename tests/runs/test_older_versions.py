"""Run folders and stores of an older version (tests/fixtures) are read, resumed and reported as if they were ours."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from smoothcert.cli import main
from smoothcert.report import average_certified_radius, read_store

OLD = Path(__file__).parents[1] / "fixtures" / "commit-835bc7e"


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A copy to work on, in which the network of the runs can be imported."""
    place = tmp_path / "old"
    shutil.copytree(OLD, place)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    return place


def rows(path):
    """The rows of a part without the time that each took."""
    header, *lines = path.read_text().splitlines()
    time = header.split("\t").index("time")
    return sorted(tuple(cell for i, cell in enumerate(line.split("\t")) if i != time) for line in lines)


CERTIFY = ["certify", "finished", "--every", "100", "--n", "500", "--device", "cpu"]
ATTACK = ["attack", "finished", "--radius", "0.25", "0.5", "--every", "250", "--n", "200", "--noises", "4"]
ATTACK += ["--steps", "3", "--device", "cpu"]


@pytest.mark.parametrize(
    ("store", "command"),
    [
        ("certify/test", CERTIFY),
        ("certify/early", [*CERTIFY, "--name", "early", "--radius", "0.25", "0.5"]),
        ("attack/pgd", ATTACK),
    ],
)
def test_a_store_is_resumed_with_the_same_rows(old, store, command, capsys):
    part = old / "finished" / store / "part-0-of-1.tsv"
    before, manifest = rows(part), (part.parent / "manifest.json").read_bytes()
    whole = part.read_text().splitlines(keepends=True)
    part.write_text("".join(whole[:4]) + "900\t3")  # three rows are left, and a torn line
    main(command)
    assert rows(part) == before
    assert part.read_text().splitlines(keepends=True)[:4] == whole[:4]
    assert (part.parent / "manifest.json").read_bytes() == manifest


def test_it_verifies_without_a_chain_and_a_radius_that_was_raised_is_found(old, capsys):
    main(["verify", "finished"])
    said = capsys.readouterr().out
    assert said.count("note: part-0-of-1.tsv: no chain (written by an older version)") == 2
    assert "finished/certify/early: verified: 10 rows recomputed, 0 re-sampled, 0 differ" in said
    assert "finished/certify/test: verified: 10 rows recomputed, 0 re-sampled, 0 differ" in said
    part = old / "finished" / "certify" / "test" / "part-0-of-1.tsv"
    header, *lines = part.read_text().splitlines(keepends=True)
    part.write_text(header + "".join(lines).replace("1.1025931172639512", "1.1125931172639512"))
    with pytest.raises(SystemExit) as stop:
        main(["verify", "finished"])
    assert stop.value.code == 1
    assert "part-0-of-1.tsv, line 2, input 0: radius 1.1125931172639512 is more" in capsys.readouterr().out


def test_another_procedure_is_still_refused(old, capsys):
    with pytest.raises(SystemExit):
        main([*CERTIFY, "--alpha", "0.01"])
    assert "alpha: 0.001 there, 0.01 asked" in capsys.readouterr().err


def test_an_unfinished_run_goes_on_and_a_finished_one_is_known(old, capsys):
    """On the CPU that made it, bit for bit; other processors round otherwise."""
    settings = ["mnist-mini/gaussian-0.50", "--model", "small_net.SmallNet", "--batch-size", "512", "--lr", "0.1"]
    for run in ("unfinished", "finished"):
        main(["train", *settings, "--epochs", "3", "--out", run, "--device", "cpu"])
    found, expected = (
        [json.loads(line) for line in (old / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("unfinished", "finished")
    )
    assert found[:2] == expected[:2]
    assert found[2] == pytest.approx(expected[2], rel=1e-3)
    weights, finished = (load_file(old / run / "weights.safetensors") for run in ("unfinished", "finished"))
    assert all(np.allclose(weights[name], value, atol=1e-4) for name, value in finished.items())


def test_reports_and_status_show_it(old, capsys):
    main(["report", "finished", "--html", "report.html"])
    shown = capsys.readouterr().out
    assert average_certified_radius(read_store("finished/certify/test")) == pytest.approx(0.52251, abs=1e-5)
    assert "0.523" in shown
    assert "finished" in (old / "report.html").read_text()
    main(["status", "finished", "unfinished"])
    shown = capsys.readouterr().out
    assert "all 10 inputs done (n 500, alpha 0.001, quantised noise)" in shown
    assert "epoch 2 of 3" in shown
