"""Stores that are spoilt, their checks mended as a forger would: whoever believes stores refuses each of them alike."""

import json
import shutil
from functools import partial

import pytest

from smoothcert.errors import StoreError
from smoothcert.evaluation.attack import _certified
from smoothcert.report import read_store
from smoothcert.runs.check import require_sound
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.merge import merge
from smoothcert.runs.state import run_states
from smoothcert.runs.store import ResultStore, clock
from smoothcert.verification.pack import pack
from smoothcert.verification.verify import verify
from tests.runs.machines import append
from tests.verification.simulated import recheck, simulate, tamper


def certified(cells):
    return cells["predict"] != "-1"


def cells(**change):
    return lambda store: tamper(store, lambda _: change, certified)


def by(change, where=certified):
    return lambda store: tamper(store, change, where)


def manifest(mend=True, **change):
    """Entries of the identity changed; None takes one away."""

    def spoil(store):
        parts = store.parts()
        path = store.folder / "manifest.json"
        values = json.loads(path.read_text())
        values["identity"] = {**values["identity"], **change}
        values["identity"] = {k: v for k, v in values["identity"].items() if v is not None}
        path.write_text(json.dumps(values))
        try:
            for part in parts if mend else ():
                recheck(store, part)
        except StoreError:
            pass  # a forger could not mend it either

    return spoil


def file(**change):
    def spoil(store):
        path = store.folder / "manifest.json"
        values = {**json.loads(path.read_text()), **change}
        path.write_text(json.dumps({k: v for k, v in values.items() if v is not None}))

    return spoil


def text(old, new, name="manifest.json"):
    def spoil(store):
        path = store.folder / name
        content = path.read_text()
        assert old in content
        path.write_text(content.replace(old, new, 1))

    return spoil


def write(name, content):
    return lambda store: (store.folder / name).write_text(content)


def second_part(change):
    """A part of another process, with one row that says something else of the same input."""

    def spoil(store):
        row = next(row for row in store.parts()[0].rows() if certified(row))
        with store.writer(5, 7) as part:
            part.add({**row, **change(row), "time": clock(1)})

    return spoil


def moved(number, to=1):
    """So many votes of the estimation went from the selected class to another."""

    def change(row):
        counts = {int(a): int(b) for a, b in (e.split(":") for e in row["counts"].split(","))}
        top = int(row["predict"])
        other = next(label for label in range(4) if label != top)
        counts = {**counts, top: counts[top] - number, other: counts.get(other, 0) + number}
        written = ",".join(f"{label}:{counts[label]}" for label in sorted(counts) if counts[label])
        return {
            "counts": written,
            "path": str(counts[top]),
            "predict": "-1",
            "radius": "0.0",
            "correct": "0",
        }

    return change


PART = "part-0-of-2.tsv"
SPOILT = {
    "a radius above its counts": cells(radius="3.5"),
    "a radius 10 % above": by(lambda c: {"radius": str(1.1 * float(c["radius"]))}),
    "a radius a little above": by(lambda c: {"radius": str(1.00001 * float(c["radius"]))}),
    "a radius that is none": cells(radius="nan"),
    "a class that its counts do not select": by(
        lambda c: {"predict": str((int(c["predict"]) + 1) % 4), "correct": "0"},
        lambda c: certified(c) and c["label"] == c["predict"],
    ),
    "a class though its counts prove none": by(
        lambda c: {"predict": c["counts0"].split(":")[0], "radius": "0.1", "correct": "0"},
        lambda c: not certified(c) and c["label"] != c["counts0"].split(":")[0],
    ),
    "an abstention with a radius": by(lambda _: {"radius": "0.1"}, lambda c: not certified(c)),
    "correct though it is not": by(lambda _: {"correct": "1"}, lambda c: c["correct"] == "0"),
    "an input of another set": cells(idx="6"),
    "an input beyond the set": cells(idx="125"),
    "a label that is no class": cells(label="4", correct="0"),
    "counts that are not in the order of classes": by(
        lambda c: {"counts": ",".join(reversed(c["counts"].split(",")))},
        lambda c: "," in c["counts"],
    ),
    "counts of too few samples": by(lambda c: {"counts0": "0:99"}),
    "counts of a class beyond": by(lambda c: {"counts": c["counts"] + ",9:0"}),
    "counts that are none": cells(counts="many"),
    "a path that is not that of its counts": by(lambda c: {"path": str(int(c["path"]) - 1)}),
    "a path of two looks": by(lambda c: {"path": f"20 {c['path']}"}),
    "no path": cells(path=""),
    "a time that is none": cells(time="soon"),
    "an edited row": text("0:00:00.5", "0:00:00.6", PART),
    "no checks": lambda store: [
        path.write_text(
            "".join(line.rpartition("\t")[0] + "\n" for line in path.read_text().splitlines())
        )
        for path in store.part_paths()
    ],
    "a torn header": text("idx\tlabel", "idy\tlabel", PART),
    "two labels of one input": second_part(
        lambda row: {
            "label": str((int(row["label"]) + 1) % 4),
            "correct": "0",
            "predict": "-1",
            "radius": "0.0",
        }
    ),
    "other votes than rounding explains": second_part(moved(11)),
    "a noise that nobody knows": manifest(noise="ablation"),
    "no noise": manifest(noise=None),
    "a norm of its own": manifest(norm="l1"),
    "a tau of its own": manifest(tau=0.0),
    "images of no values": manifest(dimension=0),
    "no size of images": manifest(dimension=None),
    "larger images": manifest(noise="exact", dimension=10**8),
    "no classes": manifest(classes=None),
    "no start": manifest(start=None),
    "no sigma": manifest(sigma=None),
    "a sigma that is text": manifest(sigma="0.5"),
    "an infinite sigma": text('"sigma": 0.5', '"sigma": 1e999'),
    "a sigma below the one that was drawn": manifest(sigma=0.4),
    "a number of samples that is a word": manifest(n=True),
    "a smaller alpha": manifest(alpha=1e-9),
    "a step of 0": manifest(every=0),
    "a step back": manifest(every=-1),
    "an alpha above 1": manifest(alpha=2.0),
    "a sigma below 0": manifest(sigma=-1.0),
    "another start": manifest(start=8),
    "samples without end": manifest(n=10**15),
    "a seed below 0": manifest(seed=-5),
    "no seed": manifest(noise_seed=None),
    "more inputs than were asked for": file(inputs=41),
    "no inputs": file(inputs=0),
    "a count that is no number": cells(counts=f"0:{10**30}"),
    "a count below 0": cells(counts="0:1001,1:-1"),
    "one class twice": cells(counts="0:500,0:500"),
    "no selection": cells(counts0=""),
    "one alpha for all": manifest(simultaneous=True),
    "a tolerance that it was not made with": manifest(tolerance=0.1),
    "radii that it was not made with": manifest(radii=[0.0, 0.25]),
    "tests that no number of samples passes": manifest(radii=[50.0]),
    "inputs that should have been skipped": manifest(skip_wrong=True),
    "another seed than its settings give": manifest(noise_seed=5),
    "a manifest that was edited": manifest(mend=False, dataset="elsewhere"),
    "an entry that nobody knows": manifest(procedure="mine"),
    "control characters": manifest(dataset="no\x1b[2Jwhere"),
    "brackets without end": write("manifest.json", "[" * 100_000),
    "no manifest at all": write("manifest.json", "{}"),
    "too many inputs": file(inputs=10**12),
    "fewer inputs than rows": file(inputs=39),
    "an older format": file(format=None),
    "a newer format": file(format=2),
    "checks that are none": write("checks.jsonl", "x\n"),
    "more that differ than were checked": write("checks.jsonl", '{"rechecked": 1, "differ": 2}\n'),
}
HONEST = {
    "a weaker claim": by(lambda c: {"radius": str(0.5 * float(c["radius"]))}),
    "an abstention though a class is proved": cells(predict="-1", radius="0.0", correct="0"),
    "a row made twice": second_part(lambda row: {}),
    "a row made twice, whose votes rounding flipped": second_part(moved(10)),
    "a row made on another processor": second_part(
        lambda row: {"radius": str(float(row["radius"]) * (1 - 1e-15))}
    ),
    "an unfinished last line": lambda store: append(store.part_paths()[0], "5\t1"),
}


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()}


def certify_more(store):
    """As certify does before it adds rows."""
    there = store.manifest()
    asked = Manifest({**there.identity, "max": 50}, 50, there.environment)
    store.claim(asked, partial(require_sound, advice="certify again"))


def unpackable(folder):
    run = folder.parent.parent
    (verdict,) = verify(run, record=False)
    assert verdict.answer != "verified"
    pack(run, run.with_suffix(".zip"))


ASKED = {
    "report": read_store,
    "merge": lambda folder: merge([folder], folder.parent.parent.parent / "out"),
    "certify": lambda folder: certify_more(ResultStore(folder)),
    "attack": lambda folder: _certified(ResultStore(folder)),
    "pack": unpackable,
}


@pytest.mark.parametrize("kind", SPOILT)
def test_all_seven_refuse_it_and_nothing_is_changed(tmp_path, kind):
    store = simulate(tmp_path / "run" / "certify" / "test")
    SPOILT[kind](store)
    before = content(tmp_path)
    (verdict,) = verify(store.folder, record=False)
    assert verdict.answer == "differs", kind
    (state,) = run_states(store.folder)
    assert (state.stores[0].state, state.finished) == ("damaged", False)
    for ask in ASKED.values():
        with pytest.raises(StoreError):
            ask(store.folder)
    assert content(tmp_path) == before


@pytest.mark.parametrize("kind", HONEST)
def test_all_believe_what_is_honest(tmp_path, kind):
    store = simulate(tmp_path / "run" / "certify" / "test")
    HONEST[kind](store)
    (verdict,) = verify(store.folder, record=False)
    assert (verdict.answer, verdict.problems) == ("verified", [])
    assert run_states(store.folder)[0].finished
    found = read_store(store.folder)
    assert found.rows == 40
    assert merge([store.folder], tmp_path / "out").missing == []
    joint = read_store(tmp_path / "out")
    assert (joint.predict.tolist(), joint.radius.tolist()) == (
        found.predict.tolist(),
        found.radius.tolist(),
    )
    assert len(_certified(store)) == 40
    certify_more(store)


def test_of_two_rows_that_agree_the_weaker_claim_stands(tmp_path):
    store = simulate(tmp_path / "run" / "certify" / "test")
    row = next(row for row in store.parts()[0].rows() if certified(row))
    place = read_store(store.folder).idx.tolist().index(int(row["idx"]))
    assert read_store(store.folder).radius[place] == float(row["radius"])
    second_part(lambda row: {"radius": str(0.5 * float(row["radius"]))})(store)
    assert read_store(store.folder).radius[place] == 0.5 * float(row["radius"])
    with store.writer(6, 7) as part:
        part.add({**row, **moved(3)(row)})
    found = read_store(store.folder)
    assert (found.predict[place], found.radius[place], found.correct[place]) == (-1, 0.0, False)
    assert any("made twice" in note for note in verify(store.folder, record=False)[0].notes)


def test_a_whole_store_is_taken_by_all_of_them(tmp_path):
    store = simulate(tmp_path / "run" / "certify" / "test", noise="laplace")
    assert run_states(store.folder)[0].finished
    assert merge([store.folder], tmp_path / "out").added == 40
    certify_more(store)
    assert store.manifest().inputs == 50
    assert not run_states(store.folder)[0].finished


def test_answers_that_came_out_otherwise_are_noted(tmp_path):
    store = simulate(tmp_path)
    (tmp_path / "checks.jsonl").write_text('{"rechecked": 5000, "differ": 1}\n{"rech')
    (verdict,) = verify(store.folder, record=False)
    assert verdict.answer == "verified"
    assert any("5,000 answers evaluated again, 1 differed" in note for note in verdict.notes)


def test_a_store_of_another_model_json_is_not_joined(tmp_path):
    """As of machines whose run folders have the same weights, and other normalisations."""
    a = simulate(tmp_path / "a")
    b = ResultStore(shutil.copytree(a.folder, tmp_path / "b"))
    manifest(model_json="another")(b)
    with pytest.raises(StoreError, match=r"model_json: None in .*/a, 'another' in .*/b"):
        merge([a.folder, b.folder], tmp_path / "out")


def test_rows_of_another_model_json_are_found_though_they_were_copied(tmp_path):
    a, b = simulate(tmp_path / "a"), simulate(tmp_path / "b")
    manifest(model_json="another")(b)
    shutil.copy(b.part_paths()[0], a.folder / "part-7-of-9.tsv")
    assert "edited or moved" in verify(a.folder, record=False)[0].problems[0]
