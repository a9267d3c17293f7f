"""Worker processes: the same batches as without them, the same errors, and nothing left behind."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from smoothcert.data import Batches, ImageFolder, decoding, load_dataset
from smoothcert.data.decoding import Wanted, choose_workers, decoded
from smoothcert.data.hub import HubDataset
from smoothcert.errors import ConfigError, DataError
from tests.data.shards import png, write_shards
from tests.data.test_batches import same

KINDS = ("class-folders", "folder", "tar", "hub")


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The same 11 pictures in four places."""
    root = tmp_path_factory.mktemp("pictures")
    for i in range(11):
        path = root / "folder" / f"{i % 4}" / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(i)[1])
    write_shards(root / "tar", [4, 7])
    hashed = load_dataset(f"folder:{root / 'folder'}")
    hashed.fingerprint()  # from now on each picture is compared with its hash
    rows = [{"image": {"bytes": png(i)[1], "path": None}} for i in range(11)]
    hub = HubDataset(rows, "image", "hub", "train")
    hub.labels, hub.classes, hub.class_names, hub.rule = np.arange(11) % 4, 4, (), hashed.rule
    hub.fingerprint()
    found = ImageFolder(root / "folder"), hashed, load_dataset(f"tar:{root / 'tar'}"), hub
    return dict(zip(KINDS, found, strict=True))


def test_a_row_is_called_by_its_number_in_the_whole_set(sets):
    assert (
        sets["hub"].part([7, 2]).part([1]).where(0) == sets["hub"].where(2) == "hub (train), row 2"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_batches_do_not_depend_on_the_workers_and_resume_anywhere(sets, kind):
    for augment, workers, start in (
        ("imagenet", 1, 0),
        ("imagenet", 3, 1),
        ("none", 2, 2),
        ("none", 3, 3),
    ):
        whole = list(Batches(sets[kind], 4, seed=5, augment=augment, workers=0).epoch(1))
        assert sorted(torch.cat([batch.index for batch in whole]).tolist()) == list(range(11))
        tail = list(
            Batches(sets[kind], 4, seed=5, augment=augment, workers=workers).epoch(1, start)
        )
        assert len(tail) == len(whole) - start
        assert all(same(a, b) for a, b in zip(whole[start:], tail, strict=True))


def test_every_batch_is_right_however_many_buffers_there_are(sets):
    data = sets["tar"]
    wanted = [Wanted([k % 11, (3 * k + 1) % 11, (7 * k) % 11][: 1 + k % 3]) for k in range(12)]
    with closing(decoded(data, wanted, 3, 2)) as found:
        for batch, images in zip(wanted, found, strict=True):
            assert np.array_equal(images, np.stack([data.image(i) for i in batch.indices]))


def test_a_bad_picture_is_named_as_without_workers(tmp_path):
    for i in range(6):
        (tmp_path / str(i % 2)).mkdir(exist_ok=True)
        (tmp_path / str(i % 2) / f"{i}.png").write_bytes(png(i)[1] if i != 3 else b"no picture")
    data, told = load_dataset(f"folder:{tmp_path}"), []
    for workers in (0, 2):
        with pytest.raises(DataError, match=r"3\.png: expected a readable picture") as refused:
            list(Batches(data, 4, seed=0, workers=workers).epoch(0))
        told.append(str(refused.value))
    assert told[0] == told[1]


def children(parent=None):
    """Processes whose parent is this one, or that one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = entry.read_text().partition(" ")
        except OSError:
            continue
        if int(rest.rpartition(")")[2].split()[1]) == (parent or os.getpid()):
            found.append(int(pid))
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")


@needs_proc
def test_workers_end_with_the_epoch_and_when_it_is_left_early(sets):
    before = set(children())
    steps = Batches(sets["tar"], 2, seed=0, workers=2).epoch(0)
    next(steps)
    assert len(set(children()) - before) == 2
    steps.close()
    assert set(children()) == before
    list(Batches(sets["tar"], 2, seed=0, workers=2).epoch(0))
    assert set(children()) == before


@needs_proc
def test_a_worker_that_is_killed_is_an_error(sets):
    before = set(children())
    steps = Batches(sets["tar"], 1, seed=0, workers=1).epoch(0)
    next(steps)
    [worker] = set(children()) - before
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(
        DataError, match="ended with the status -9: if memory is short, ask for fewer workers"
    ):
        list(steps)
    assert set(children()) == before


@needs_proc
def test_signals_are_for_the_parent(sets, capfd):
    before = set(children())
    steps = Batches(sets["tar"], 4, seed=0, workers=2).epoch(0)
    next(steps)  # both workers had a part of it, so both are at work
    for worker in set(children()) - before:
        os.kill(worker, signal.SIGINT)
        os.kill(worker, signal.SIGTERM)
    assert [len(batch.labels) for batch in steps] == [4, 3]
    assert capfd.readouterr() == ("", "")


SCRIPT = """  # without a guard, which `multiprocessing` asks scripts for
import sys
from smoothcert.data import load_dataset
from smoothcert.data.decoding import Wanted, decoded

print("begin", flush=True)
batches = decoded(load_dataset("tar:" + sys.argv[1]), [Wanted([0, 1]), Wanted([2, 3]), Wanted([4])], 2, workers=2)
print(len(next(batches)), flush=True)
sys.stdin.read()
print([len(batch) for batch in batches])
"""


@pytest.fixture
def script(tmp_path):
    """A process that has its first batch, and waits."""
    write_shards(tmp_path, [5])
    (tmp_path / "script.py").write_text(SCRIPT.lstrip())
    streams = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, tmp_path / "script.py", tmp_path], env=environment, **streams
    ) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["begin\n", "2\n"]
        yield process
        process.kill()


def test_a_script_is_not_run_again_by_its_workers(script):
    assert script.communicate() == ("[2, 1]\n", "")
    assert script.returncode == 0


@needs_proc
def test_no_worker_outlives_a_parent_that_was_killed(script):
    assert len(children(script.pid)) == 2
    script.kill()
    assert script.communicate(timeout=600) == (
        "",
        "",
    )  # it waits until no worker has these streams any more


def test_how_many_workers_there_are(sets, monkeypatch):
    data = sets["tar"]
    monkeypatch.setattr(decoding, "cores", lambda: 12)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert choose_workers(None, data, 999) == 0  # few pictures do not pay for processes
    assert choose_workers(None, data, 100_000) == 12
    assert choose_workers(0, data, 100_000) == 0
    assert choose_workers(5, data, 10) == 5
    assert choose_workers(5, data, 0) == 0
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert choose_workers(None, data, 100_000) == 3
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "40")
    assert choose_workers(None, data, 100_000) == 1
    with pytest.raises(ConfigError, match="a number of workers from 0 on, found -1"):
        choose_workers(-1, data, 10)
