"""Inputs certified again: the same counts come out, and counts that nobody drew do not."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch

from smoothcert import (
    CertifyConfig,
    Selection,
    build_model,
    certify_dataset,
    load_dataset,
)
from smoothcert.certification.certifier import certificate_row
from smoothcert.certification.smoothed import SmoothedClassifier
from smoothcert.errors import ConfigError, ModelError, StoreError
from smoothcert.runs.counts import class_counts, top_class, written
from smoothcert.runs.folder import ModelSpec, RunFolder, described
from smoothcert.runs.store import ResultStore
from smoothcert.verification.resample import Resampling
from smoothcert.verification.verify import verify
from tests.counted import certified
from tests.verification.simulated import recheck, tamper

OF = "6 of 1,000 inputs of the data set"
SETTINGS = {
    "fixed": {},
    "radii": {"radii": (0.0, 0.1), "n": 500},
    "simultaneous": {"simultaneous": True, "skip_wrong": True},
    "laplace": {"noise": "laplace", "tolerance": 0.5, "n": 1_500},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A network that was never trained, certified by several procedures."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "run")
    model, data = build_model("lenet", seed=0), load_dataset("mnist-mini", "test")
    folder.save_model(model, ModelSpec("lenet", 10, "none", 0.5, "mnist-mini", (1, 28, 28)))
    for name, changes in SETTINGS.items():
        config = CertifyConfig(**{"sigma": 0.5, "n": 200, "n0": 20, **changes})
        chosen = Selection(start=3, every=2, max=6)
        certify_dataset(
            model, data, folder.path / "certify" / name, config, selection=chosen, quiet=True
        )
    return folder.path


@pytest.fixture
def store(runs, tmp_path):
    return ResultStore(shutil.copytree(runs, tmp_path / "run") / "certify" / "fixed")


def again(place, amount="100%", **settings):
    return verify(place, resampling=Resampling(amount, device="cpu", quiet=True, **settings))


def test_the_same_counts_come_out_of_every_procedure(runs):
    found = again(runs)
    assert [verdict.store.name for verdict in found] == sorted(SETTINGS)
    for verdict in found:
        assert verdict.problems == []
        assert verdict.text == f"verified: 6 rows recomputed, 6 re-sampled, 0 differ; {OF}"


def invented(cells):
    """Counts of a classifier that is always right, with the bound and the radius that they prove."""
    counts0, counts = np.zeros((2, 1, 10), np.int64)
    label = int(cells["label"])
    counts0[0, label], counts[0, label] = 20, 200
    (certificate,) = certified(counts0, counts)
    row = certificate_row(certificate, index=int(cells["idx"]), label=label)
    return {name: str(value) for name, value in row.items()}


def test_invented_counts_pass_every_other_check_and_are_found_by_sampling_again(store):
    index = tamper(store, invented)
    assert verify(store.folder)[0].answer == "verified"
    (verdict,) = again(store.folder)
    assert (verdict.answer, verdict.differ) == ("differs", [index])
    (problem,) = verdict.problems
    assert problem.startswith(f"input {index} sampled again: ")
    assert "stored," in problem


def elsewhere(store, **changes):
    """As if the rows had been made on a GPU."""
    path = store.folder / "manifest.json"
    values = json.loads(path.read_text())
    values["identity"] |= changes or {"device_type": "cuda (NVIDIA H200)", "precision": "float16"}
    path.write_text(json.dumps(values))
    for part in store.parts():
        recheck(store, part)


def test_another_network_is_a_problem_and_one_that_another_pytorch_prints_otherwise_is_not(store):
    identity = store.manifest().identity
    version = identity["network"].rpartition(":")[0]
    assert version == "torch " + ".".join(torch.__version__.split(".")[:2])
    elsewhere(store, network=f"{version}:0123")
    (verdict,) = again(store.folder, "1")
    assert verdict.answer == "differs"
    assert verdict.problems[0].startswith(f"network: {version}:0123 there, {version}:")
    elsewhere(store, network="torch 1.0:0123")
    assert again(store.folder, "1")[0].text.startswith("verified: ")
    behaviour = [
        [answer, *(number + 1 for number in numbers)] for answer, *numbers in identity["behaviour"]
    ]
    elsewhere(store, behaviour=behaviour)
    (verdict,) = again(store.folder, "1")
    assert verdict.problems[0].startswith("network: torch 1.0:0123 there")


ABSTAINS = {
    "predict": "-1",
    "radius": "0.0",
    "correct": "0",
}


def moved(counts, answers):
    """Counts of which so many answers of the largest class are another's, as rounding does to few of them."""
    entries = class_counts(counts)
    top = max(entries, key=entries.get)
    other = min(label for label in range(10) if label != top)
    entries |= {top: entries[top] - answers, other: entries.get(other, 0) + answers}
    return ",".join(f"{label}:{entries[label]}" for label in sorted(entries))


def evidence(cells, **changes):
    """Cells of a fixed number of samples with other counts, and the path that belongs to them."""
    found = {**cells, **changes}
    path = class_counts(found["counts"]).get(top_class(found["counts0"]), 0)
    return {**changes, "path": str(path)}


def test_what_rounding_may_explain_on_another_device_is_said_and_what_it_cannot_is_a_problem(store):
    elsewhere(store)
    (verdict,) = again(store.folder)
    assert (
        verdict.text
        == f"verified: 6 rows recomputed, 6 re-sampled, 0 differ on another device or PyTorch; {OF}"
    )
    assert any("device_type cuda (NVIDIA H200) there, cpu here" in note for note in verdict.notes)
    index = tamper(
        store,
        lambda cells: evidence(cells, counts=moved(cells["counts"], 1)) | ABSTAINS,
    )
    (verdict,) = again(store.folder)
    assert (verdict.answer, verdict.differ) == ("verified", [index])
    assert any(f"input {index} sampled again: " in note for note in verdict.notes)
    tamper(store, invented)
    (verdict,) = again(store.folder)
    assert verdict.answer == "differs"


def test_an_answer_that_another_pytorch_rounds_otherwise_is_no_problem(store):
    index = tamper(
        store,
        lambda cells: evidence(cells, counts=moved(cells["counts"], 1)) | ABSTAINS,
    )
    assert again(store.folder)[0].answer == "differs"
    path = store.folder / "manifest.json"
    values = json.loads(path.read_text())
    values["environment"]["torch"] = "1.0"
    path.write_text(json.dumps(values))
    (verdict,) = again(store.folder)
    assert (verdict.answer, verdict.differ) == ("verified", [index])
    assert (
        f"sampled again elsewhere (torch 1.0 there, {torch.__version__} here), where"
        in "; ".join(verdict.notes)
    )


def raised(by, sigma, tau):
    """Cells whose selected class was counted so much more often, with what that proves."""

    def change(cells):
        counts0, counts = (class_counts(cells[stage]) for stage in ("counts0", "counts"))
        top = min(counts0, key=lambda label: (-counts0[label], label))
        other = max(
            (label for label in range(10) if label != top), key=lambda label: counts.get(label, 0)
        )
        more = min(by, counts.get(other, 0))
        counts |= {top: counts[top] + more, other: counts.get(other, 0) - more}
        arrays = [[[part.get(label, 0) for label in range(10)]] for part in (counts0, counts)]
        (certificate,) = certified(*map(np.array, arrays), sigma, tau=tau)
        row = certificate_row(certificate, index=int(cells["idx"]), label=int(cells["label"]))
        return {name: str(value) for name, value in row.items()}

    return change


@pytest.mark.parametrize(
    ("by", "problem"),
    [
        (30, "input 3 sampled again: "),  # what Fisher's exact test would allow
        (4, "input 3 sampled again: "),  # more flips of one input than rounding makes
        (3, "all 20 inputs sampled again, together: the selected classes were counted "),
    ],
)
def test_counts_that_are_all_a_little_better_than_on_this_device_are_found(store, by, problem):
    model, _ = RunFolder(store.folder.parent.parent).load_model()
    data, config, chosen = (
        load_dataset("mnist-mini", "test"),
        CertifyConfig(4.0, 20, 200),
        Selection(start=3, max=20),
    )
    store = certify_dataset(
        model, data, store.folder.with_name("twenty"), config, selection=chosen, quiet=True
    )
    elsewhere(store)
    tau = store.manifest().procedure.tau
    for index in range(3, 23):
        tamper(store, raised(by, 4.0, tau), lambda cells, index=index: cells["idx"] == str(index))
    assert verify(store.folder)[0].problems == []
    (verdict,) = again(store.folder)
    assert verdict.answer == "differs"
    assert any(text.startswith(problem) for text in verdict.problems)


def test_selection_counts_are_compared_on_another_device_too(store):
    elsewhere(store)
    tamper(
        store,
        lambda cells: evidence(cells, counts0=moved(cells["counts0"], 4)) | ABSTAINS,
    )
    (verdict,) = again(store.folder)
    assert any("counts0" in text for text in verdict.problems)


@pytest.mark.parametrize("name", ["radii", "laplace"])
def test_an_input_that_stopped_at_another_look_is_compared_up_to_that_look(runs, tmp_path, name):
    """A flip may move the look at which sampling stops. Here nothing flipped, but the rows were stored one look on."""
    store = ResultStore(shutil.copytree(runs, tmp_path / "run") / "certify" / name)
    elsewhere(store)
    manifest, data = store.manifest(), load_dataset("mnist-mini", "test")
    of, looks = manifest.certified, manifest.procedure.stopping.looks
    model, _ = RunFolder(tmp_path / "run").load_model()
    config = CertifyConfig(0.5, noise=of.noise, seed=of.noise_seed)
    smoothed = SmoothedClassifier(model, config, classes=10)

    def to_the_end(cells):
        image = torch.from_numpy(data.image(int(cells["idx"])))
        counts, path = np.zeros(10, np.int64), []
        for first, last in pairwise((0, *looks)):
            counts += smoothed.count(image, last, "estimation", int(cells["idx"]), first)
            path.append(str(counts[top_class(cells["counts0"])]))
        return {"counts": written(counts), "path": " ".join(path)} | ABSTAINS

    index = tamper(store, to_the_end, lambda cells: len(cells["path"].split()) < len(looks))
    (verdict,) = again(store.folder)
    assert (verdict.problems, verdict.differ) == ([], [index])

    if name == "radii":  # nearly all answers are alike: no other path leads to these counts
        return

    def better_before_the_end(cells):
        *path, before, last = map(int, cells["path"].split())
        risen = min(before + 10 + looks[-2] // 100, path[-1] + looks[-2] - looks[-3], last)
        assert risen > before + max(3, 0.01 * looks[-2])
        return {"path": " ".join(map(str, [*path, risen, last]))}

    tamper(store, better_before_the_end, lambda cells: cells["idx"] == str(index))
    assert verify(store.folder)[0].problems == []
    (verdict,) = again(store.folder)
    assert verdict.answer == "differs"


def test_rows_of_another_stream_of_noise_are_not_sampled_again(store):
    path = store.folder / "manifest.json"
    path.write_text(path.read_text().replace("philox4x32-words-2", "philox4x32-words-0"))
    for part in store.parts():
        recheck(store, part)
    with pytest.raises(
        StoreError,
        match=r"cannot be sampled again: its noise is of the stream 'philox4x32-words-0'",
    ):
        again(store.folder)


def test_the_amount_the_choice_and_what_is_needed(store):
    first, second = (again(store.folder, "2", seed=3)[0] for _ in range(2))
    assert first.resampled == second.resampled == 2
    for wrong in ("0", "0%", "101%", "many", "-3", ""):
        with pytest.raises(ConfigError, match="--resample takes a share"):
            Resampling(wrong)
    assert [Resampling(amount).inputs(250) for amount in ("1%", "0.1%", "17", "9999")] == [
        3,
        1,
        17,
        250,
    ]
    shutil.copytree(store.folder, alone := store.folder.parents[2] / "alone")
    with pytest.raises(StoreError, match="alone cannot be sampled again without the network"):
        again(alone)


def test_other_weights_and_other_data_are_found_before_anything_is_sampled(store):
    run = store.folder.parent.parent
    weights = (run / "weights.safetensors").read_bytes()
    other = bytearray(weights)
    other[-1] ^= 1
    for damage, problem in (
        (bytes(other), "holds other weights"),
        (weights[:100], "weights.safetensors is damaged"),
    ):
        (run / "weights.safetensors").write_bytes(damage)
        (verdict,) = again(store.folder)
        assert any(problem in text for text in verdict.problems)
        assert verdict.resampled == 0
    (run / "weights.safetensors").write_bytes(weights)
    path = store.folder / "manifest.json"
    path.write_text(path.read_text().replace('"split": "test"', '"split": "train"'))
    for part in store.parts():
        recheck(store, part)
    (verdict,) = again(store.folder)
    assert any("is not the data that was certified" in text for text in verdict.problems)


def test_inputs_that_were_cut_off_are_found_by_the_data(store):
    """A tail was cut, and the manifest edited where the chain does not reach: `inputs`, and `max`, which may grow."""
    (part,) = store.parts()
    rows = [part.header, *part.fields[:4]]
    part.path.write_text("".join("\t".join(cells) + "\n" for cells in rows))
    path = store.folder / "manifest.json"
    values = json.loads(path.read_text())
    for most, chosen in ((6, 6), (None, 499)):
        values["identity"]["max"], values["inputs"] = most, 4
        path.write_text(json.dumps(values))
        (verdict,) = verify(store.folder)
        assert verdict.problems == [
            f"manifest.json: inputs 4, but its start, every and max choose {chosen} of 1,000 inputs of the data set"
        ]
    values["identity"]["max"] = 4  # which may have been asked for: said, not refused
    path.write_text(json.dumps(values))
    (verdict,) = verify(store.folder)
    assert (
        verdict.text
        == "verified: 4 rows recomputed, 0 re-sampled, 0 differ; 4 of 1,000 inputs of the data set"
    )
    assert (verdict.values()["inputs"], verdict.values()["available"]) == (4, 1000)


def test_labels_are_those_of_the_data(store):
    index = tamper(store, lambda cells: {"label": str((int(cells["label"]) + 1) % 10), "predict": "-1", "correct": "0",
                                         "radius": "0.0"})  # fmt: skip
    (verdict,) = verify(store.folder)
    assert any(
        f"input {index}: label" in text and "but the data has" in text for text in verdict.problems
    )


def test_sampling_again_runs_no_code_that_a_stranger_names(store):
    run = RunFolder(store.folder.parent.parent)
    path = run.path / "model.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "architecture": "antigravity.open"})
    )
    assert "model.json is not the one that was certified" in again(store.folder)[0].problems[0]
    elsewhere(store, **described(store.folder))
    with pytest.raises(ModelError, match="trust"):
        again(store.folder)
