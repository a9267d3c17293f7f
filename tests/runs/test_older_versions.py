"""Run folders and stores of an older version (tests/fixtures): runs go on, and stores are read but not resumed."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from smoothcert.cli import main
from smoothcert.evaluation.reanalysis import reanalyse
from smoothcert.report import average_certified_radius, read_store
from tests.code import note_code

OLD = Path(__file__).parents[1] / "fixtures" / "commit-835bc7e"


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A copy to work on, in which the network of the runs can be imported."""
    place = tmp_path / "old"
    shutil.copytree(OLD, place)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    for run in place.glob("*/model.json"):
        note_code(run.parent)  # which versions of then did not note
    return place


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


CERTIFY = ["certify", "finished", "--trust-code", "--every", "100", "--n", "500", "--device", "cpu"]
ATTACK = [
    "attack",
    "finished",
    "--trust-code",
    "--radius",
    "0.25",
    "0.5",
    "--every",
    "250",
    "--n",
    "200",
]
ATTACK += ["--noises", "4", "--steps", "3", "--device", "cpu"]


@pytest.mark.parametrize(
    ("store", "command"),
    [
        ("certify/test", CERTIFY),
        ("certify/early", [*CERTIFY, "--name", "early", "--radius", "0.25", "0.5"]),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_store_of_the_noise_of_then_is_not_resumed(old, store, command, whole, capsys):
    """Its noise is gone. What is missing, and what a crash left behind, stays as it is."""
    part = old / "finished" / store / "part-0-of-1.tsv"
    if not whole:
        part.write_text("".join(part.read_text().splitlines(keepends=True)[:4]) + "900\t3")
    before = contents(old)
    with pytest.raises(SystemExit):
        main(command)
    error = capsys.readouterr().err
    assert "holds results of another procedure" in error
    assert "noise: 'quantised' there, 'exact' asked" in error
    assert "noise_stream: 'philox-blocks-1' there, 'philox4x32-words-2' asked" in error
    assert "choose another --name" in error
    with pytest.raises(SystemExit):
        main([*command, "--noise", "quantised"])
    assert "'quantised' is gone: use 'exact'" in capsys.readouterr().err
    assert contents(old) == before


def test_another_name_certifies_beside_it(old):
    main([*CERTIFY, "--name", "again", "--max", "2"])
    again, then = (read_store(f"finished/certify/{name}") for name in ("again", "test"))
    assert again.noise == "exact"
    # the same network and images, other noise: each is certified within what 500 samples vary
    assert again.idx.tolist() == then.idx.tolist()[: len(again.idx)]
    assert np.allclose(again.radius, then.radius[: len(again.radius)], atol=0.25)


def test_attacks_that_were_rounded_otherwise_are_not_continued(old, capsys):
    part = old / "finished" / "attack" / "pgd" / "part-0-of-1.tsv"
    before = part.read_bytes()
    with pytest.raises(SystemExit):
        main(ATTACK)
    said = capsys.readouterr().err
    assert "attack_version: None there, 3 asked" in said
    assert "choose another --name" in said
    assert part.read_bytes() == before


def test_attacks_that_know_nothing_of_the_network_itself_are_reported(old, capsys):
    main(["report", "finished", "--tables", "attacks"])
    said = capsys.readouterr().out
    assert re.search(r"under pgd +\d+ +\d+ +\d+ +\d+\.\d", said)


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
    assert (
        "part-0-of-1.tsv, line 2, input 0: radius 1.1125931172639512 is more"
        in capsys.readouterr().out
    )


def test_another_procedure_is_still_refused(old, capsys):
    with pytest.raises(SystemExit):
        main([*CERTIFY, "--alpha", "0.01"])
    assert "alpha: 0.001 there, 0.01 asked" in capsys.readouterr().err


def test_an_unfinished_run_goes_on_and_a_finished_one_is_known(old, capsys):
    """On the CPU that made it, bit for bit; other processors round otherwise."""
    settings = [
        "mnist-mini/gaussian-0.50",
        "--model",
        "small_net.SmallNet",
        "--batch-size",
        "512",
        "--lr",
        "0.1",
    ]
    for run in ("unfinished", "finished"):
        main(["train", *settings, "--epochs", "3", "--out", run, "--device", "cpu"])
    found, expected = (
        [json.loads(line) for line in (old / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("unfinished", "finished")
    )
    assert found[:2] == expected[:2]
    assert found[2] == pytest.approx(expected[2], rel=1e-3)
    weights, finished = (
        load_file(old / run / "weights.safetensors") for run in ("unfinished", "finished")
    )
    assert all(np.allclose(weights[name], value, atol=1e-4) for name, value in finished.items())


def test_reports_and_status_show_it(old, capsys):
    main(["report", "finished", "--html", "report.html"])
    shown = capsys.readouterr().out
    assert average_certified_radius(read_store("finished/certify/test")) == pytest.approx(
        0.52251, abs=1e-5
    )
    assert "0.523" in shown
    assert "finished" in (old / "report.html").read_text()
    assert reanalyse("finished/certify/test", alpha=0.01).radius.mean() > 0.55
    main(["status", "finished", "unfinished"])
    shown = capsys.readouterr().out
    assert "all 10 inputs done (n 500, alpha 0.001, quantised noise)" in shown
    assert "epoch 2 of 3" in shown
