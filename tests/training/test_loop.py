"""The loop: kill -9 and resume bit for bit, the schedule, chunking, ranks, refusals."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from smoothcert.config import TrainConfig
from smoothcert.data import Dataset
from smoothcert.errors import ConfigError, MissingExtra, ModelError, SmoothcertError, StoreError, TrainingDiverged
from smoothcert.methods.base import Losses, Method
from smoothcert.runs.folder import RunFolder
from smoothcert.runs.status import status_lines
from smoothcert.training.fit import fit

CONFIG = TrainConfig(
    "tiny", "tests.training.test_loop.TinyNet", 0.25, {"name": "gaussian"}, epochs=3, batch_size=16, lr=0.05
)


class TinyNet(nn.Module):
    """Dropout draws from the global generator and BatchNorm has running statistics: both must survive a resume."""

    def __init__(self, classes=4):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(6 * 36, classes)
        )

    def forward(self, x):
        return self.body(x)


def tiny(split="train", size=150, seed=0):
    """Four classes: which quarter of the image is bright."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, size)
    images = rng.integers(0, 100, (size, 1, 8, 8))
    for image, label in zip(images, labels, strict=True):
        row, column = 4 * (label // 2), 4 * (label % 2)
        image[0, row : row + 4, column : column + 4] += 150
    return Dataset("tiny", split, images.astype(np.uint8), labels, 4)


def train(out, config=CONFIG, **options):
    return fit(config, out, train=tiny(), test=tiny("test", 64, 1), device="cpu", quiet=True, **options)


@pytest.fixture
def one_thread():
    """As the child processes of a test have: sums over other numbers of threads may round differently."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def outcome(run):
    files = ("weights.safetensors", "metrics.jsonl", "model.json", "config.yaml")
    return {name: (run.path / name).read_bytes() for name in files}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs") / "reference")


def test_it_learns_and_says_so(reference):
    metrics = reference.records("metrics.jsonl")
    assert [entry["epoch"] for entry in metrics] == [0, 1, 2]
    assert metrics[-1]["loss"] < 0.5 * metrics[0]["loss"]
    assert metrics[-1]["noisy_test_accuracy"] > 0.9
    assert 0.2 < metrics[-1]["most_frequent_answer"] < 0.5
    timing = reference.records("timing.jsonl")
    assert len(timing) == 3
    assert reference.finished


def test_the_seed_decides_everything(reference, tmp_path):
    torch.manual_seed(12345)  # the caller's generator must not matter
    assert outcome(train(tmp_path / "again")) == outcome(reference)
    other = train(tmp_path / "other", dataclasses.replace(CONFIG, seed=1))
    assert outcome(other)["weights.safetensors"] != outcome(reference)["weights.safetensors"]


def test_the_callers_generator_is_left_as_it_was(tmp_path):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    train(tmp_path / "run")
    assert torch.equal(torch.rand(3), expected)


CHILD = """
import sys
from tests.training.test_loop import *
torch.set_num_threads(1)
real = RunFolder.save_state
def save_state(self, state):
    real(self, state)
    print("saved", flush=True)
RunFolder.save_state = save_state
train(sys.argv[1], checkpoint_seconds=0.0)
"""


@pytest.mark.usefixtures("one_thread")
def test_killed_at_any_moment_and_resumed_the_run_ends_the_same(tmp_path):
    """kill -9 after some checkpoint, which is written after every step here, at whatever the process then does."""
    out = tmp_path / "killed"
    for saves, delay in ((1, 0.0), (7, 0.001), (3, 0.002), (9, 0.004), (4, 0.0)):
        process = subprocess.Popen([sys.executable, "-c", CHILD, str(out)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(saves):
            process.stdout.readline()
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
    run = RunFolder(out)
    assert not run.finished
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 2, "lo')  # and a line torn by a power cut
    assert outcome(train(out)) == outcome(train(tmp_path / "whole"))


def test_a_finished_run_is_left_alone(reference):
    before = outcome(reference)
    state = (reference.path / "state.pt").stat().st_mtime_ns
    train(reference.path)
    assert outcome(reference) == before
    assert (reference.path / "state.pt").stat().st_mtime_ns == state


def test_another_configuration_is_refused_with_the_differing_settings(reference):
    before = outcome(reference)
    with pytest.raises(StoreError, match=r"sigma: 0.25 there, 0.5 asked; epochs: 3 there, 4 asked.*another --out"):
        train(reference.path, dataclasses.replace(CONFIG, sigma=0.5, epochs=4))
    assert outcome(reference) == before


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"holds files but no config.yaml"):
        train(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["thesis.tex"]


def test_a_folder_in_use_is_refused(tmp_path):
    run = RunFolder(tmp_path / "run")
    with run.lock(), pytest.raises(StoreError, match="another process is training"):
        train(run.path)


def test_an_unwritable_place_is_named():
    with pytest.raises(StoreError, match="could not write /proc/smoothcert"):
        train("/proc/smoothcert")


@pytest.mark.parametrize("name", [".config.yaml.0a1b2c.tmp", ".state.pt.0a1b2c.tmp"])
def test_what_a_killed_writer_left_behind_is_no_obstacle(tmp_path, name):
    (tmp_path / ".lock").touch()
    (tmp_path / name).write_text("half a fi")
    train(tmp_path, dataclasses.replace(CONFIG, epochs=1))
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "lenet"}, r"cannot take the data's images, of shape \[1, 8, 8\]"),
        ({"model": "tests.training.test_loop.ThreeClasses"}, r"logits \[2, 4\].*\[2, 3\]"),
        ({"model": "tests.training.test_loop.Nothing"}, "no parameters"),
        ({"model": "renset20"}, "did you mean resnet20"),
        ({"normalisation": "cifar10"}, "channel"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_before_the_folder_is_claimed(tmp_path, change, message):
    with pytest.raises(SmoothcertError, match=message):
        train(tmp_path / "run", dataclasses.replace(CONFIG, **change))
    assert not (tmp_path / "run").exists()


class ThreeClasses(TinyNet):
    def __init__(self, classes=4):
        super().__init__(3)


class Nothing(nn.Module):
    def __init__(self, classes=4):
        super().__init__()

    def forward(self, x):
        return x.flatten(1)[:, :4]


def test_a_run_belongs_to_its_data(reference, tmp_path):
    """Finished or not: other data in the same folder is refused, not trained on."""
    with pytest.raises(StoreError, match="was trained on other data"):
        fit(CONFIG, reference.path, train=tiny(seed=5), device="cpu", quiet=True)
    config = dataclasses.replace(CONFIG, method={"name": "tests.training.test_loop.Exploding"})
    with pytest.raises(TrainingDiverged):
        train(tmp_path / "run", config)
    with pytest.raises(StoreError, match="was trained on other data"):
        fit(config, tmp_path / "run", train=tiny(seed=5), test=tiny("test", 64, 1), device="cpu", quiet=True)


def test_a_flipped_bit_is_noticed(reference, tmp_path):
    run = RunFolder(tmp_path / "run")
    run.claim(CONFIG)
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
        run.load_model()


@dataclasses.dataclass(frozen=True)
class Scaled(Method):
    scales: tuple[float, ...] = (1.0, 2.0)

    def loss(self, model, batch, sigma, progress):
        return Losses(F.cross_entropy(model(batch.images), batch.labels))


def test_hyperparameters_may_be_tuples(tmp_path):
    config = dataclasses.replace(CONFIG, epochs=1, method={"name": "tests.training.test_loop.Scaled"})
    before = outcome(train(tmp_path / "run", config))
    assert outcome(train(tmp_path / "run", config)) == before


@pytest.mark.parametrize("line", ['{"epoch": 0, "lo\n', "3\n", "\udcff\n"])
def test_a_damaged_metrics_line_is_named(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"epoch": 0}\n' + line.encode(errors="surrogateescape"))
    with pytest.raises(StoreError, match=r"metrics.jsonl, line 2: expected a JSON object"):
        RunFolder(tmp_path).records("metrics.jsonl")


def test_a_damaged_state_is_named_and_kept(reference, tmp_path):
    run = RunFolder(tmp_path / "run")
    run.claim(CONFIG)
    (run.path / "state.pt").write_bytes((reference.path / "state.pt").read_bytes()[:1000])
    with pytest.raises(StoreError, match=r"state.pt is damaged"):
        train(run.path)
    assert (run.path / "state.pt").stat().st_size == 1000


@pytest.mark.usefixtures("one_thread")
def test_a_full_disk_keeps_the_state_before(tmp_path):
    """A real write failure in the middle of a checkpoint; afterwards the run goes on to the same end."""
    out = tmp_path / "run"
    code = (
        "import resource, sys; from tests.training.test_loop import *\n"
        "torch.set_num_threads(1)\n"
        "real = RunFolder.save_state\n"
        "def save_state(self, state):\n"
        "    if state['epoch'] == 2: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "    real(self, state)\n"
        "RunFolder.save_state = save_state\n"
        "try: train(sys.argv[1])\n"
        "except StoreError as error: print(error); sys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(out)], capture_output=True, text=True)
    assert done.returncode == 7, done.stderr
    assert "could not write" in done.stdout
    state = RunFolder(out).load_state()
    assert state is not None
    assert state["epoch"] == 1
    assert not list(out.glob("*.tmp"))
    assert outcome(train(out)) == outcome(train(tmp_path / "whole"))


@dataclasses.dataclass(frozen=True)
class Exploding(Method):
    def loss(self, model, batch, sigma, progress):
        factor = float("nan") if progress.epoch == 1 else 1.0
        return Losses(factor * F.cross_entropy(model(batch.images), batch.labels))


@dataclasses.dataclass(frozen=True)
class Halves(Method):
    """A method of a user's, by dotted path, that cuts each batch into two steps."""

    weight: float = 1.0

    @property
    def chunks(self):
        return 2

    def loss(self, model, batch, sigma, progress):
        loss = F.cross_entropy(model(batch.images), batch.labels)
        return Losses(self.weight * loss, {"images": torch.tensor(float(len(batch.labels)))})


def test_a_diverged_training_is_said_loudly_and_keeps_the_last_good_state(tmp_path):
    config = dataclasses.replace(CONFIG, method={"name": "tests.training.test_loop.Exploding"})
    with pytest.raises(TrainingDiverged, match="became nan in epoch 2 of 3"):
        train(tmp_path / "run", config)
    run = RunFolder(tmp_path / "run")
    assert not run.finished
    assert len(run.records("metrics.jsonl")) == 1
    state = run.load_state()
    assert state is not None
    assert all(value.isfinite().all() for value in state["model"].values())


@dataclasses.dataclass(frozen=True)
class OneAnswer(Method):
    """Teaches the network to answer class 2 whatever it sees."""

    def loss(self, model, batch, sigma, progress):
        return Losses(F.cross_entropy(model(batch.images), torch.full_like(batch.labels, 2)))


@dataclasses.dataclass(frozen=True)
class BareTensor(Method):
    def loss(self, model, batch, sigma, progress):
        return F.cross_entropy(model(batch.images), batch.labels)


def test_a_collapsed_training_is_said_loudly(tmp_path, capsys):
    run = train(tmp_path / "run", dataclasses.replace(CONFIG, method={"name": "tests.training.test_loop.OneAnswer"}))
    assert "has collapsed: 100 % of the test images get one and the same answer" in capsys.readouterr().err
    assert run.records("metrics.jsonl")[-1]["most_frequent_answer"] == 1.0
    assert "COLLAPSED: one answer for 100 % of the images" in status_lines(run.path)[0]


def test_a_loss_that_is_a_bare_tensor_is_refused_in_words(tmp_path):
    with pytest.raises(ConfigError, match=r"found Tensor: return Losses\(loss\)"):
        train(tmp_path / "run", dataclasses.replace(CONFIG, method={"name": "tests.training.test_loop.BareTensor"}))


def test_a_method_of_yours_cuts_batches_into_steps(tmp_path, monkeypatch):
    steps = []
    real = torch.optim.SGD.step
    monkeypatch.setattr(torch.optim.SGD, "step", lambda self: (steps.append(1), real(self))[1])
    config = dataclasses.replace(CONFIG, epochs=1, method={"name": "tests.training.test_loop.Halves", "weight": 0.5})
    run = train(tmp_path / "run", config)
    assert len(steps) == 2 * 10  # 150 images: nine batches of 16 and one of 6
    assert 3 <= run.records("metrics.jsonl")[0]["images"] <= 8


def test_too_few_images_for_the_method_are_named(tmp_path):
    config = dataclasses.replace(CONFIG, batch_size=1, method={"name": "tests.training.test_loop.Halves"})
    with pytest.raises(ConfigError, match="no optimiser step was taken: the method cuts each batch into 2 parts"):
        train(tmp_path / "run", config)


def test_the_optimiser_is_plain_sgd_with_weight_decay_on_everything(tmp_path):
    """One step of one batch against the update written out: w -= lr (g + wd w), no Nesterov, no exceptions."""
    data = tiny(size=16)
    config = dataclasses.replace(CONFIG, epochs=1, lr=0.1, weight_decay=0.5, momentum=0.9, evaluate_every=0)
    config = dataclasses.replace(
        config, method={"name": "tests.training.test_loop.Clean"}, model="tests.training.test_loop.Plain"
    )
    from smoothcert.keys import derive
    from smoothcert.models import build_model

    expected = build_model(config.model, 4, seed=derive(config.seed, "init"))
    loss = F.cross_entropy(expected(torch.from_numpy(data.images).float() / 255), torch.from_numpy(data.labels))
    loss.backward()
    run = fit(config, tmp_path / "run", train=data, device="cpu", quiet=True)
    found, _ = run.load_model()
    for before, after in zip(expected.parameters(), found.parameters(), strict=True):
        assert torch.allclose(before - 0.1 * (before.grad + 0.5 * before), after, atol=1e-6)


class Plain(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(x.flatten(1))


@dataclasses.dataclass(frozen=True)
class Clean(Method):
    def loss(self, model, batch, sigma, progress):
        return Losses(F.cross_entropy(model(batch.images), batch.labels))


def test_two_processes_train_like_one(tmp_path):
    """torchrun with two CPU ranks and no noise: the averaged gradient is the gradient of the whole batch."""
    config = dataclasses.replace(
        CONFIG, method={"name": "tests.training.test_loop.Clean"}, model="tests.training.test_loop.Plain", epochs=2
    )
    alone = train(tmp_path / "alone", config)
    code = (
        "import sys, dataclasses; from tests.training.test_loop import *\n"
        "config = dataclasses.replace(CONFIG, method={'name': 'tests.training.test_loop.Clean'},"
        " model='tests.training.test_loop.Plain', epochs=2)\n"
        "train(sys.argv[1], config)\n"
        "os._exit(0)\n"  # PyTorch's threads now and then abort a process that exits on a busy machine
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [*command, str(script), str(tmp_path / "two")], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr
    one, two = alone.load_model()[0].state_dict(), RunFolder(tmp_path / "two").load_model()[0].state_dict()
    for name in one:
        assert torch.allclose(one[name], two[name], atol=1e-5), name
    losses = [
        [entry["loss"] for entry in RunFolder(p).records("metrics.jsonl")] for p in (alone.path, tmp_path / "two")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize("track", ["tensorboard"])
def test_metrics_also_go_to_a_tracker(tmp_path, track):
    pytest.importorskip(track)
    run = train(tmp_path / "run", dataclasses.replace(CONFIG, epochs=1), track=[track])
    assert list((run.path / "tensorboard").glob("events.*"))


def test_unknown_and_missing_trackers_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"did you mean tensorboard\?"):
        train(tmp_path / "a", track=["tensorbord"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "wandb", None)  # as if not installed
        with pytest.raises(MissingExtra, match=r"pip install 'smoothcert\[wandb\]'"):
            train(tmp_path / "b", track=["wandb"])
    assert not list(tmp_path.iterdir())  # a mistyped command does not claim the folder


@pytest.mark.parametrize("late", [False, True])
def test_the_schedule_and_its_published_late_variant(late):
    config = dataclasses.replace(CONFIG, lr=0.01, lr_step=30, epochs=90, lr_late=late)
    rates = [round(config.learning_rate(epoch), 9) for epoch in range(90)]
    counts = [rates.count(rate) for rate in (0.01, 0.001, 0.0001)]
    assert counts == ([31, 30, 29] if late else [30, 30, 30])
    assert rates == sorted(rates, reverse=True)


def test_model_json_says_what_the_weights_are(reference):
    spec = json.loads((reference.path / "model.json").read_text())
    assert spec["architecture"] == CONFIG.model
    assert (spec["classes"], spec["sigma"], spec["shape"], spec["input_range"]) == (4, 0.25, [1, 8, 8], [0.0, 1.0])


@pytest.mark.cuda
def test_a_cuda_run_learns_and_resumes(tmp_path):
    run = fit(CONFIG, tmp_path / "run", train=tiny(), test=tiny("test", 64, 1), device="cuda", quiet=True)
    assert run.records("metrics.jsonl")[-1]["noisy_test_accuracy"] > 0.9
    (run.path / "model.json").unlink()  # as if killed before the end
    state = run.load_state()
    assert state is not None
    assert fit(CONFIG, run.path, train=tiny(), test=tiny("test", 64, 1), device="cuda", quiet=True).finished
