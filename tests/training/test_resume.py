"""Stopped at any moment, by kill -9 or a full disk, a run goes on to the same weights; what is damaged is refused."""

import dataclasses

import pytest

from smoothcert.errors import ModelError, StoreError
from smoothcert.methods import build_method, resolved
from smoothcert.runs.folder import RunFolder
from tests.processes import Child, kill_at
from tests.training.tiny import (
    CONFIG,
    SAMPLED,
    outcome,
    train,
    train_reporting_states,
    train_until_the_disk_is_full,
)

WHOLE = resolved(CONFIG, build_method(CONFIG.method))  # as a run has it


@pytest.mark.usefixtures("one_thread")
def test_killed_at_any_moment_and_resumed_the_run_ends_the_same(tmp_path):
    """kill -9 after some checkpoint, which is written after every step here, at whatever the process then does."""
    out = tmp_path / "killed"
    moments = ((1, 0.0), (7, 0.001), (3, 0.002), (9, 0.004), (4, 0.0))
    kill_at(moments, train_reporting_states, out)
    run = RunFolder(out)
    assert not run.finished
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 2, "lo')  # and a line torn by a power cut
    assert outcome(train(out)) == outcome(train(tmp_path / "whole"))


@pytest.mark.usefixtures("one_thread")
def test_the_images_that_a_method_has_chosen_survive_a_kill(tmp_path):
    """In the middle of the epoch that chose them, in the one after, and in the one that weighs them anew."""
    out = tmp_path / "killed"
    kill_at(((10 + 4, 0.0), (8, 0.0), (10, 0.001)), train_reporting_states, out, SAMPLED)
    state = RunFolder(out).load_state()
    assert state is not None
    assert 0 < int((state["sampling"] == 0).sum()) < 150
    whole = train(tmp_path / "whole", SAMPLED)
    assert outcome(train(out, SAMPLED)) == outcome(whole)
    kept = [entry.get("kept_images") for entry in whole.records("metrics.jsonl")]
    assert kept == [None, *[int((state["sampling"] > 0).sum())] * 3]


@pytest.mark.usefixtures("one_thread")
def test_a_full_disk_keeps_the_state_before(tmp_path):
    """A real write failure in the middle of a checkpoint; afterwards the run goes on to the same end."""
    out = tmp_path / "run"
    assert "could not write" in Child(train_until_the_disk_is_full, out).result()
    state = RunFolder(out).load_state()
    assert state is not None
    assert state["epoch"] == 1
    assert not list(out.glob("*.tmp"))
    assert outcome(train(out)) == outcome(train(tmp_path / "whole"))


@pytest.mark.parametrize("name", [".config.yaml.0a1b2c.tmp", ".state.pt.0a1b2c.tmp"])
def test_what_a_killed_writer_left_behind_is_no_obstacle(tmp_path, name):
    (tmp_path / ".lock").touch()
    (tmp_path / name).write_text("half a fi")
    train(tmp_path, dataclasses.replace(CONFIG, epochs=1))
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_flipped_bit_is_noticed(reference, tmp_path):
    run = RunFolder(tmp_path / "run")
    run.claim(WHOLE)
    content = bytearray((reference.path / "state.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (run.path / "state.pt").write_bytes(content)
    with pytest.raises(StoreError, match="wrong checksum"):
        train(run.path)
    for name in ("model.json", "config.yaml"):
        (run.path / name).write_bytes((reference.path / name).read_bytes())
    weights = bytearray((reference.path / "weights.safetensors").read_bytes())
    weights[-5] ^= 1
    (run.path / "weights.safetensors").write_bytes(weights)
    with pytest.raises(ModelError, match="not those that model"):
        run.load_model(trust_code=True)


def test_a_damaged_state_is_named_and_kept(reference, tmp_path):
    run = RunFolder(tmp_path / "run")
    run.claim(WHOLE)
    (run.path / "state.pt").write_bytes((reference.path / "state.pt").read_bytes()[:1000])
    with pytest.raises(StoreError, match=r"state.pt is damaged"):
        train(run.path)
    assert (run.path / "state.pt").stat().st_size == 1000


@pytest.mark.cuda
def test_a_cuda_run_learns_and_resumes(tmp_path):
    run = train(tmp_path / "run", device="cuda")
    assert run.records("metrics.jsonl")[-1]["noisy_test_accuracy"] > 0.9
    (run.path / "model.json").unlink()  # as if killed before the end
    state = run.load_state()
    assert state is not None
    assert train(run.path, device="cuda").finished
