"""Self-training: a reader that never runs what a file says, batches of both kinds by turns, losses weighted."""

import contextlib
import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import types

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from smoothcert.data import Batches, Dataset
from smoothcert.data.interleaved import Interleaved
from smoothcert.data.pseudo_labels import read_pseudo_labelled
from smoothcert.errors import ConfigError, DataError, StoreError, TrainingDiverged
from smoothcert.kernels.trainable import products
from smoothcert.keys import derive
from smoothcert.methods import METHODS, build_method
from smoothcert.methods.base import Losses, Method, Progress
from smoothcert.models import build_model
from smoothcert.recipes import load_recipe
from smoothcert.runs.folder import RunFolder
from smoothcert.training.fit import fit
from smoothcert.training.ranks import Ranks
from smoothcert.training.steps import Stepper
from tests.data.test_array_pickle import Call, content, with_a_byte_changed
from tests.training.test_loop import CONFIG, outcome, tiny

# ---------------------------------------------------------------- the file


def colour(size=12, seed=0):
    """What a CIFAR-10 run trains on."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (size, 3, 32, 32)).astype(np.uint8)
    return Dataset("cifar10", "train", images, rng.integers(0, 10, size), 10)


@given(with_a_byte_changed())
def test_a_file_with_any_byte_changed_has_images_of_the_right_shape_or_is_refused(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(written)
    with contextlib.suppress(DataError):
        assert read_pseudo_labelled(path, colour()).images.shape == (1, 3, 32, 32)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_file_of_the_same_arrays_is_read(tmp_path, save):
    wanted = content()
    save(tmp_path / "file.npz", data=wanted["data"], extrapolated_targets=wanted["extrapolated_targets"])
    (tmp_path / "pickle").write_bytes(pickle.dumps(wanted))
    one, two = (read_pseudo_labelled(tmp_path / name, colour()) for name in ("file.npz", "pickle"))
    assert one.fingerprint() == two.fingerprint()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": content()["data"].astype(np.int32)}, r"uint8 and shape \['N', 32, 32, 3\].*cifar10.*int32"),
        ({"data": content()["data"].transpose(0, 3, 1, 2).copy()}, r"found uint8 \[20, 3, 32, 32\]"),
        ({"data": content()["data"][:, :28]}, r"found uint8 \[20, 28, 32, 3\]"),
        ({"data": content()["data"].reshape(20, -1)}, r"found uint8 \[20, 3072\]"),
        ({"data": [[1, 2], [3, 4]]}, "no array data, but the entries .*'ti_index'"),
        ({"data": np.array([None, 1])}, "type 'O8', which is no plain number"),
        ({"extrapolated_targets": np.arange(20) / 10}, r"20 integers, one per image, found float64 \[20\]"),
        ({"extrapolated_targets": np.arange(19) % 10}, r"20 integers, one per image, found int64 \[19\]"),
        ({"extrapolated_targets": np.zeros((20, 1), int)}, r"found int64 \[20, 1\]"),
        ({"extrapolated_targets": np.arange(20)}, "labels from 0 to 9, found 10 for image 10"),
        ({"extrapolated_targets": np.arange(20) % 10 - 1}, "labels from 0 to 9, found -1 for image 0"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 5])
def test_arrays_that_do_not_fit_are_named(tmp_path, changes, message, protocol):
    (tmp_path / "file").write_bytes(pickle.dumps(content(**changes), protocol))
    with pytest.raises(DataError, match=message):
        read_pseudo_labelled(tmp_path / "file", colour())


def test_other_files_are_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing: expected a readable file.*No such file"):
        read_pseudo_labelled(tmp_path / "nothing", colour())
    np.savez(tmp_path / "few.npz", **{name: content()[name] for name in ("data", "extrapolated_targets")})
    with pytest.raises(DataError, match="at least a whole batch of 30 pseudo-labelled images, found 20"):
        read_pseudo_labelled(tmp_path / "few.npz", colour(), least=30)
    np.savez(tmp_path / "other.npz", images=content()["data"])
    objects = np.array([Call(os.system, f"touch {tmp_path / 'owned'}")])
    np.savez(tmp_path / "objects.npz", data=objects, extrapolated_targets=np.zeros(1, int))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "few.npz").read_bytes()[:5000])
    for name in ("other.npz", "objects.npz", "cut.npz"):
        with pytest.raises(
            DataError, match=f"{name}: expected an .npz file of the arrays data and extrapolated_targets"
        ):
            read_pseudo_labelled(tmp_path / name, colour())
    assert not (tmp_path / "owned").exists()


# ---------------------------------------------------------------- batches of both kinds


def interleaved(labelled=50, pseudo=70, batch_size=8, **options):
    return Interleaved(Batches(tiny(size=labelled), batch_size, **{"seed": 3, **options}), tiny(size=pseudo, seed=9))


def kinds(batches, epoch):
    return [batch.pseudo_labelled for batch in batches.epoch(epoch)]


def test_an_epoch_is_the_labelled_batches_and_as_many_pseudo_labelled_ones_in_random_order():
    batches = interleaved(augment="crop-flip")
    found = list(batches.epoch(1))
    assert len(found) == len(batches) == 14
    alone = list(Batches(tiny(size=50), 8, seed=3, augment="crop-flip").epoch(1))
    labelled = [batch for batch in found if not batch.pseudo_labelled]
    for one, two in zip(labelled, alone, strict=True):
        assert torch.equal(one.images, two.images)
        assert one.generator.initial_seed() == two.generator.initial_seed()
    pseudo = torch.cat([batch.index for batch in found if batch.pseudo_labelled]).tolist()
    assert len(pseudo) == len(set(pseudo)) == 56  # a part of the 70, none twice
    assert len({batch.generator.initial_seed() for batch in found}) == 14
    orders = {tuple(kinds(interleaved(seed=seed), epoch)) for seed in (0, 1, 2) for epoch in (0, 1, 2)}
    assert len(orders) > 5
    assert all(sum(order) == 7 for order in orders)


@given(
    labelled=st.integers(1, 40),
    pseudo=st.integers(4, 40),
    batch=st.integers(1, 4),
    epoch=st.integers(0, 2),
    start=st.floats(0, 1),
)
def test_a_resumed_epoch_is_the_tail_of_the_whole_however_small_the_pseudo_labelled_set(
    labelled, pseudo, batch, epoch, start
):
    batches = interleaved(labelled, pseudo, batch)
    first = round(start * len(batches))
    whole, tail = list(batches.epoch(epoch)), list(batches.epoch(epoch, first))
    assert len(whole) == len(batches)
    for one, two in zip(whole[first:], tail, strict=True):
        assert one.pseudo_labelled == two.pseudo_labelled
        assert torch.equal(one.images, two.images)
        assert one.generator.initial_seed() == two.generator.initial_seed()
    taken = np.bincount(torch.cat([b.index for b in whole if b.pseudo_labelled]), minlength=pseudo)
    assert taken.max() - taken.min() <= 1  # gone through evenly


def test_all_ranks_take_the_same_kinds():
    one, two = (interleaved(rank=rank, world_size=2) for rank in (0, 1))
    assert kinds(one, 4) == kinds(two, 4)
    assert len(set(kinds(one, 4))) == 2


# ---------------------------------------------------------------- training


def write(path, data):
    np.savez(path, data=data.images.transpose(0, 2, 3, 1), extrapolated_targets=data.labels)
    return str(path)


@pytest.fixture
def pseudo(tmp_path):
    return write(tmp_path / "pseudo.npz", tiny(size=200, seed=5))


def with_pseudo(path, weight=0.5, **changes):
    return dataclasses.replace(CONFIG, self_training={"path": path, "weight": weight}, **changes)


def train(out, config, data=None):
    return fit(config, out, train=data or tiny(), test=tiny("test", 64, 1), device="cpu", quiet=True)


def test_it_trains_on_both_and_says_so(tmp_path, pseudo):
    config = dataclasses.replace(CONFIG, self_training={"path": pseudo}, method={"name": "consistency", "lam": 1.0})
    run = train(tmp_path / "run", config)
    metrics = run.records("metrics.jsonl")
    assert metrics[-1]["noisy_test_accuracy"] > 0.9
    for name in ("loss", "cross_entropy", "divergence", "entropy"):
        assert {name, f"pseudo_labelled_{name}"} <= metrics[0].keys()
    assert metrics[-1]["pseudo_labelled_loss"] < 0.8 * metrics[0]["pseudo_labelled_loss"]
    assert [entry["steps"] for entry in run.records("timing.jsonl")] == [20, 20, 20]
    assert run.config().self_training == {"path": pseudo, "weight": 1.0}
    assert "+" in run.spec().data


@pytest.mark.parametrize("method", [name for name in METHODS if name != "catrs"])
def test_at_weight_0_every_method_trains_as_without(tmp_path, method):
    """Without momentum and decay, a step of no gradient is none; LeNet has no statistics of batches."""
    rng = np.random.default_rng(0)
    data = Dataset("grey", "train", rng.integers(0, 256, (24, 1, 28, 28)).astype(np.uint8), rng.integers(0, 10, 24), 10)
    path = write(tmp_path / "pseudo.npz", dataclasses.replace(data, images=255 - data.images))
    config = dataclasses.replace(
        CONFIG, model="lenet", method={"name": method}, epochs=2, momentum=0.0, weight_decay=0.0, evaluate_every=0
    )
    alone, none, some = (
        fit(dataclasses.replace(config, self_training=s), tmp_path / name, train=data, device="cpu", quiet=True)
        for name, s in (("a", {}), ("0", {"path": path, "weight": 0}), ("1", {"path": path, "weight": 0.1}))
    )
    weights = [run.load_model()[0].state_dict() for run in (alone, none, some)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert not all(torch.equal(value, weights[2][name]) for name, value in weights[0].items())
    for one, two in zip(*(run.records("metrics.jsonl") for run in (alone, none)), strict=True):
        assert one.items() <= two.items()  # and is logged as without


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 2.5])
def test_two_steps_are_the_update_resolved(tmp_path, weight):
    """w -= lr (weight g + wd w) for the one pseudo-labelled batch, w -= lr (g + wd w) for the labelled one."""
    labelled, other = tiny(size=16), tiny(size=16, seed=5)
    config = with_pseudo(write(tmp_path / "pseudo.npz", other), weight, epochs=1, lr=0.5, momentum=0.0)
    config = dataclasses.replace(
        config,
        method={"name": "tests.training.test_loop.Clean"},
        model="tests.training.test_loop.Plain",
        weight_decay=0.1,
        evaluate_every=0,
    )
    run = fit(config, tmp_path / "run", train=labelled, device="cpu", quiet=True)
    found = list(run.load_model()[0].parameters())

    def by_hand(steps):
        network = build_model(config.model, 4, seed=derive(config.seed, "init"))
        parameters, losses = list(network.parameters()), []
        for data, factor in steps:
            logits = network(torch.from_numpy(data.images).float() / 255)
            loss = F.cross_entropy(logits, torch.from_numpy(data.labels))
            gradients = torch.autograd.grad(loss, parameters)
            losses.append(loss.item())
            with torch.no_grad():
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter -= 0.5 * (factor * gradient + 0.1 * parameter)
        return parameters, losses

    steps = [(labelled, 1.0), (other, weight)]
    if kinds(Interleaved(Batches(labelled, 16, seed=config.seed), other), 0)[0]:
        steps.reverse()
    expected, losses = by_hand(steps)
    for one, two in zip(found, expected, strict=True):
        assert torch.allclose(one, two, atol=1e-6)
    [metrics] = run.records("metrics.jsonl")  # losses without the weight
    names = {id(labelled): "loss", id(other): "pseudo_labelled_loss"}
    logged = {names[id(data)]: loss for (data, _), loss in zip(steps, losses, strict=True)}
    assert {name: metrics[name] for name in logged} == pytest.approx(logged, rel=1e-5)


CHILD = """
import sys
from tests.training.test_pseudo_labels import *
torch.set_num_threads(1)
real = RunFolder.save_state
def save_state(self, state):
    real(self, state)
    print("saved", flush=True)
RunFolder.save_state = save_state
config = with_pseudo(sys.argv[2], augment="crop-flip")
fit(config, sys.argv[1], train=tiny(), test=tiny("test", 64, 1), device="cpu", quiet=True, checkpoint_seconds=0.0)
"""


def test_killed_in_the_middle_of_epochs_and_resumed_the_run_ends_the_same(tmp_path, pseudo):
    """kill -9 after checkpoints that are written after every step here, of both kinds; BatchNorm and dropout too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the child processes have
    out = tmp_path / "killed"
    try:
        for saves in (3, 14, 9):
            command = [sys.executable, "-c", CHILD, str(out), pseudo]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            for _ in range(saves):
                assert process.stdout.readline() == "saved\n"
            os.kill(process.pid, signal.SIGKILL)
            process.stdout.close()
            assert process.wait() == -signal.SIGKILL
        assert not RunFolder(out).finished
        config = with_pseudo(pseudo, augment="crop-flip")
        assert outcome(train(out, config)) == outcome(train(tmp_path / "whole", config))
    finally:
        torch.set_num_threads(threads)


def test_two_processes_train_like_one(tmp_path, pseudo):
    """Two CPU ranks and no noise: the averaged gradient is the gradient of the whole batch, of whichever kind."""
    changes = {
        "method": {"name": "tests.training.test_loop.Clean"},
        "model": "tests.training.test_loop.Plain",
        "epochs": 2,
    }
    alone = train(tmp_path / "alone", with_pseudo(pseudo, **changes))
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; from tests.training.test_pseudo_labels import *\n"
        f"train(sys.argv[1], with_pseudo({pseudo!r}, **{changes!r}))\n"
        "os._exit(0)\n"  # PyTorch's threads now and then abort a process that exits on a busy machine
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [*command, str(tmp_path / "two")], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr
    two = RunFolder(tmp_path / "two")
    for (name, one), other in zip(
        alone.load_model()[0].state_dict().items(), two.load_model()[0].state_dict().values(), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-5), name
    for one, other in zip(alone.records("metrics.jsonl"), two.records("metrics.jsonl"), strict=True):
        assert one == pytest.approx(other, rel=1e-4)


def test_a_run_belongs_to_its_pseudo_labelled_data(tmp_path, pseudo):
    """Finished or not: another file under the same name is refused, not trained on."""
    done, stopped = tmp_path / "done", tmp_path / "stopped"
    exploding = with_pseudo(pseudo, method={"name": "tests.training.test_loop.Exploding"})
    before = outcome(train(done, with_pseudo(pseudo)))
    with pytest.raises(TrainingDiverged):
        train(stopped, exploding)
    write(pseudo, tiny(size=200, seed=6))
    with pytest.raises(StoreError, match="was trained on other data"):
        train(done, with_pseudo(pseudo))
    with pytest.raises(StoreError, match="was trained on other data"):
        train(stopped, exploding)
    write(pseudo, tiny(size=200, seed=5))
    assert outcome(train(done, with_pseudo(pseudo))) == before
    with pytest.raises(StoreError, match=r"self_training: .*'weight': 0.5.* there, .*'weight': 0.1.* asked"):
        train(done, with_pseudo(pseudo, 0.1))


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"weight": 0.5}, {}, "missing setting of self_training: path"),
        ({"path": "pseudo.npz", "wieght": 1.0}, {}, "unknown setting of self_training 'wieght': did you mean weight"),
        ({"path": "pseudo.npz", "weight": -1.0}, {}, "self_training.weight must be a number from 0 on, found -1.0"),
        ({"path": "pseudo.npz", "weight": float("nan")}, {}, "self_training.weight must be a number from 0 on"),
        ({"path": "pseudo.npz", "weight": "much"}, {}, "unusable setting of self_training"),
        ({"path": "nothing.npz"}, {}, "nothing.npz: expected a readable file of pseudo-labelled images"),
        (
            {"path": "pseudo.npz"},
            {"batch_size": 300},
            "at least a whole batch of 300 pseudo-labelled images, found 200",
        ),
        ({"path": "pseudo.npz"}, {"method": {"name": "catrs"}}, "no soft labels, which the method catrs needs"),
    ],
)
@pytest.mark.usefixtures("pseudo")
def test_unusable_settings_are_refused_before_the_folder_is_claimed(tmp_path, monkeypatch, settings, changes, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigError, DataError), match=message):
        train(tmp_path / "run", dataclasses.replace(CONFIG, self_training=settings, **changes))
    assert not (tmp_path / "run").exists()


@dataclasses.dataclass(frozen=True)
class Reserved(Method):
    def loss(self, model, batch, sigma, progress):
        loss = F.cross_entropy(model(batch.images), batch.labels)
        return Losses(loss, {"pseudo_labelled_loss": loss})


@dataclasses.dataclass(frozen=True)
class LastBad(Method):
    """The loss of pseudo-labelled batches is no number, and no labelled batch comes after to tell."""

    def loss(self, model, batch, sigma, progress):
        loss = F.cross_entropy(model(batch.images), batch.labels)
        return Losses(loss * (float("nan") if batch.pseudo_labelled else 1.0))


def test_a_pseudo_labelled_loss_that_is_no_number_is_said_loudly(tmp_path):
    path = write(tmp_path / "pseudo.npz", tiny(size=16, seed=5))
    seed = next(s for s in range(20) if kinds(Interleaved(Batches(tiny(size=16), 16, seed=s), tiny(size=16)), 0)[1])
    config = with_pseudo(
        path, method={"name": "tests.training.test_pseudo_labels.LastBad"}, seed=seed, evaluate_every=0
    )
    with pytest.raises(TrainingDiverged, match="became nan in epoch 1"):
        train(tmp_path / "run", config, tiny(size=16))
    with pytest.raises(ConfigError, match="cannot be called pseudo_labelled_loss"):
        train(
            tmp_path / "other",
            dataclasses.replace(CONFIG, method={"name": f"{__name__}.Reserved"}),
        )


class Flat(nn.Sequential):
    def __init__(self, classes=10):
        super().__init__(nn.Flatten(), nn.Linear(784, classes))


def test_the_command_line_and_recipes_merge_its_settings(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "dataset: mnist\nmodel: lenet\nsigma: 0.5\nmethod: {name: gaussian}\nself_training: {path: a, weight: 0.1}\n"
    )
    assert load_recipe(str(recipe), {"self_training": {"path": "b"}}).config.self_training == {
        "path": "b",
        "weight": 0.1,
    }
    from smoothcert.cli import main
    from smoothcert.data import load_dataset

    whole = load_dataset("mnist-mini", "train")
    path = write(tmp_path / "digits.npz", Dataset("part", "train", whole.images[:2000], whole.labels[:2000], 10))
    options = ["--self-training.path", path, "--self-training.weight", "0.1", "--batch-size", "2000", "--epochs", "1"]
    options += ["--model", "tests.training.test_pseudo_labels.Flat", "--evaluate-every", "0"]
    main(["train", "mnist-mini/gaussian-0.50", "--out", str(tmp_path / "run"), "--device", "cpu", *options])
    run = RunFolder(tmp_path / "run")
    assert run.config().self_training == {"path": path, "weight": 0.1}
    assert run.records("metrics.jsonl")[0]["pseudo_labelled_loss"] > 0


# ---------------------------------------------------------------- captured steps


def steps(method, device, prepare=lambda stepper: None, **options):
    """Losses of each epoch and final weights, on three labelled and three pseudo-labelled batches an epoch."""
    rng = np.random.default_rng(0)
    data = [
        Dataset("grey", "train", rng.integers(0, 256, (size, 1, 28, 28)).astype(np.uint8), np.arange(size) % 10, 10)
        for size in (40, 60)
    ]
    model = build_model("lenet", seed=0).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    batches = Interleaved(Batches(data[0], 16, seed=3, device=device), data[1])
    stepper = Stepper(model, optimizer, method, 0.5, Ranks(torch.device(device)), pseudo_weight=0.3, **options)
    prepare(stepper)
    losses = []
    for epoch in range(3):
        stepper.start_epoch(Progress(epoch, 3))
        model.train()
        for batch in batches.epoch(epoch):
            stepper.take(batch)
        losses.append(stepper.means())
    return losses, model.state_dict()


def test_each_kind_is_captured_with_its_own_weight_and_sums():
    """A graph that is no graph, but repeats the step it was made of on whatever its own memory then holds."""
    recorded = []

    def pretend(stepper):
        def record(kind):
            weight = kind.weight  # a graph has the weight of its capture
            recorded.append(weight)

            def replay():
                assert kind.weight == weight
                stepper._step(kind.graph_batch, kind)

            kind.graph = types.SimpleNamespace(replay=replay)
            return True

        stepper.capture, stepper._record = True, record

    method = build_method({"name": "consistency", "noises": 2})
    plain, plain_weights = steps(method, "cpu")
    fast, fast_weights = steps(method, "cpu", pretend)
    assert sorted(recorded) == [0.3, 0.3, 0.3, 1.0, 1.0, 1.0]
    assert plain == fast
    assert {"loss", "pseudo_labelled_loss", "pseudo_labelled_divergence"} <= plain[0].keys()
    assert all(torch.equal(value, fast_weights[name]) for name, value in plain_weights.items())


@pytest.mark.cuda
@pytest.mark.parametrize("name", [name for name in METHODS if name != "catrs"])
def test_captured_steps_of_both_kinds_equal_plain_steps(name):
    method = build_method({"name": name})
    with products("float32"):
        plain, plain_weights = steps(method, "cuda", capture=False)
        fast, fast_weights = steps(method, "cuda", capture=True)
    # attacks amplify the last bits of sums, the more so on the random images here
    for one, two in zip(plain, fast, strict=True):
        assert one == pytest.approx(two, rel=2e-3, abs=1e-6)
    for key, value in plain_weights.items():
        assert torch.allclose(value, fast_weights[key], atol=5e-3), key


@pytest.mark.cuda
def test_a_cuda_run_on_both_kinds_learns(tmp_path, pseudo):
    config = with_pseudo(pseudo)
    run = fit(config, tmp_path / "run", train=tiny(), test=tiny("test", 64, 1), device="cuda", quiet=True)
    assert run.records("metrics.jsonl")[-1]["noisy_test_accuracy"] > 0.9
