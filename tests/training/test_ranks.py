"""The device, and several processes that train as one."""

import dataclasses
import os
import signal
import subprocess
import sys

import pytest
import torch

from smoothcert.devices.pick import pick_device
from smoothcert.errors import ConfigError
from smoothcert.methods import METHODS
from smoothcert.runs.folder import RunFolder
from smoothcert.training.ranks import join_ranks
from tests.processes import Launcher, run_ranks
from tests.training.tiny import (
    CONFIG,
    HERE,
    outcome,
    tiny,
    train,
    train_as_differing_ranks,
    train_as_rank,
    train_as_rank_struck,
    write_pseudo,
)


def test_auto_is_cuda_where_there_is_one():
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["tpu", "gpu0", "meta", "cuda:99"])
def test_unusable_devices_are_refused(name):
    with pytest.raises(ConfigError, match="device"):
        pick_device(name)


def test_one_process_is_the_main_one(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    ranks = join_ranks("cpu")
    assert (ranks.rank, ranks.world_size, ranks.is_main) == (0, 1, True)
    assert ranks.sum(torch.ones(2)).tolist() == [1.0, 1.0]


# batches of 16 images and one of 6, cut into the method's steps: 3 images are shared by two ranks, or by four
EXACT = dataclasses.replace(CONFIG, model=f"{HERE}.Double", sigma=0.5, epochs=1, evaluate_every=0)
ATTACKS = {"noises": 2, "steps": 2, "warmup": 1}
SETTINGS = {
    "smoothadv": ATTACKS,
    "macer": {"noises": 4},
    "smoothmix": ATTACKS,
    "catrs": {"noises": 2, "steps": 2},
    "sun": {"noises": 2, "steps": 2, "deferred": 1, "threshold": 0.3, "reweight_every": 1},
}
METHODS_TO_COMPARE = [
    *({"name": name, **SETTINGS.get(name, {})} for name in METHODS),
    {"name": "smoothadv", **ATTACKS, "attack": "ddn"},
    {"name": "smoothadv", **ATTACKS, "attack": "stein"},
    {"name": "consistency", **ATTACKS, "base": "smoothadv"},
]


def everything(folder):
    """All ways to train."""
    pseudo = write_pseudo(folder / "pseudo.npz", tiny(seed=2))
    configs = [dataclasses.replace(EXACT, method=method) for method in METHODS_TO_COMPARE]
    special = {"catrs": {"soft_labels": {"n": 40, "epochs": 1}}, "sun": {"epochs": 2}}
    configs = [
        dataclasses.replace(config, **special.get(config.method["name"], {})) for config in configs
    ]
    start = train(folder / "start", dataclasses.replace(EXACT, seed=1, epochs=1)).path
    changes = (
        {"augment": "crop-flip"},
        {"init_from": str(start)},
        {"self_training": {"path": pseudo, "weight": 0.5}, "method": {"name": "consistency"}},
        {"model": f"{HERE}.DoubleDenoiser", "method": {"name": "denoiser"}, "optimizer": "adam"},
    )
    return configs + [dataclasses.replace(EXACT, **change) for change in changes]


def moved(one, other):
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def compare(folder, size):
    configs = everything(folder)
    run_ranks(train_as_rank, folder / "several", *configs, size=size)
    for i, config in enumerate(configs):
        runs = train(folder / "alone" / str(i), config), RunFolder(folder / "several" / str(i))
        alone, several = (run.load_state()["model"] for run in runs)
        far = moved(alone, dict.fromkeys(alone, torch.zeros(())))
        assert moved(alone, several) < 1e-9 * far, config
        one, other = (run.records("metrics.jsonl") for run in runs)
        assert [entry.pop("kept_images", None) for entry in one] == [
            entry.pop("kept_images", None) for entry in other
        ]
        for entry, its in zip(one, other, strict=True):
            assert entry == pytest.approx(its, rel=1e-6), config


@pytest.mark.parametrize("differ", ["settings", "data", "run folders", "checkpoints"])
def test_processes_that_would_train_different_things_are_refused(tmp_path, differ):
    """As on machines with other files, or without a common disk; each would finish, and the run would be neither's."""
    if differ in ("run folders", "checkpoints"):
        train(tmp_path / "0", test=None)  # only the main one has it
    if differ == "checkpoints":
        (tmp_path / "0" / "model.json").unlink()
    place = "run folders" if differ == "checkpoints" else differ
    for said in run_ranks(train_as_differing_ranks, tmp_path, place):
        assert f"have different {differ}" in said
    assert not (tmp_path / "config.yaml").exists()


def test_two_processes_train_like_one_by_every_method(tmp_path):
    compare(tmp_path, 2)


@pytest.mark.long
def test_four_processes_train_like_one_by_every_method(tmp_path):
    compare(tmp_path, 4)


# ---------------------------------------------------------------- stopped, killed and started again

SHORT = dataclasses.replace(CONFIG, sigma=0.5, epochs=2, method={"name": "smoothadv", **ATTACKS})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Two ranks, with dropout, and with BatchNorm statistics that attacks read."""
    out = tmp_path_factory.mktemp("ranks") / "run"
    run_ranks(train_as_rank, out, SHORT)
    return outcome(RunFolder(out))


def strike(launcher, out, config, who, number, steps, every=600.0):
    """Two ranks, of which one gets a signal; how that one ended, and the other one."""
    ranks = launcher.start(train_as_rank_struck, out, config, who, number, steps, every)
    return ranks[who], ranks[1 - who]


def go_on(launcher, out):
    for rank in launcher.start(train_as_rank, out, SHORT):
        rank.result()
    return outcome(RunFolder(out))


def test_killed_ranks_go_on_from_a_checkpoint_inside_an_epoch(tmp_path, undisturbed):
    """The other rank ends with an error, and each has its own generator back when they are started again."""
    launcher, out = Launcher(), tmp_path / "run"
    for who, steps in ((0, 4), (1, 9)):
        killed, other = strike(launcher, out, SHORT, who, signal.SIGKILL, steps, every=0.0)
        assert "another process of this training has ended or cannot be reached" in other.result()
        assert killed.kill()  # it has been
    state = RunFolder(out).load_state()
    assert state["epoch"] * 10 + state["step"] == 3 + 8
    assert not torch.equal(state["rng"], state["others"][0]["rng"])
    assert go_on(launcher, out) == undisturbed


@pytest.mark.parametrize(("who", "number"), [(0, signal.SIGINT), (1, signal.SIGTERM)])
def test_a_signal_to_one_rank_saves_and_ends_all(tmp_path, undisturbed, who, number):
    launcher, out = Launcher(), tmp_path / "run"
    ended = [rank.interrupt(0) for rank in strike(launcher, out, SHORT, who, number, 13)]
    assert ended == 2 * [(128 + number, 0)]
    state = RunFolder(out).load_state()
    assert (state["epoch"], state["step"]) == (1, 3)  # no step is lost
    assert go_on(launcher, out) == undisturbed


def test_another_number_of_processes_goes_on(tmp_path):
    """From a checkpoint of two inside an epoch to one process: the means of the epoch are those of all its steps."""
    launcher, out = Launcher(), tmp_path / "run"  # its store must live as long as they do
    config = dataclasses.replace(EXACT, method={"name": "consistency"})
    for rank in strike(launcher, out, config, 1, signal.SIGTERM, 4):
        rank.interrupt(0)
    assert RunFolder(out).load_state()["step"] == 4
    runs = train(out, config), train(tmp_path / "whole", config)
    one, two = (run.load_state()["model"] for run in runs)
    assert moved(one, two) < 1e-9
    for entry, its in zip(*(run.records("metrics.jsonl") for run in runs), strict=True):
        assert entry == pytest.approx(its, rel=1e-6)


SCRIPT = """
import os, signal, sys
from smoothcert.training.steps import Stepper
from tests.training.test_ranks import SHORT, train
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if first and os.environ["RANK"] == "1":
    real, steps = Stepper.take, []
    def take(self, batch):
        real(self, batch)
        steps.append(1)
        if len(steps) == 13:
            os.kill(os.getpid(), signal.SIGKILL)
    Stepper.take = take
try:
    train(sys.argv[1], SHORT, checkpoint_seconds=0.0)
finally:
    os._exit(0 if sys.exc_info()[0] is None else 2)  # PyTorch's threads now and then abort a process that exits
"""


@pytest.mark.long
def test_torchrun_starts_killed_ranks_again_and_nothing_is_lost(tmp_path, undisturbed):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command += ["--max-restarts", "1", str(tmp_path / "script.py"), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    run = RunFolder(tmp_path / "run")
    assert len(run.records("environment.jsonl")) == 2
    assert outcome(run) == undisturbed
