"""Stores that are spoilt, the chain mended as a forger would: whoever believes stores refuses each of them alike."""

import json
import shutil
from functools import partial

import pytest

from smoothcert.errors import SmoothcertError, StoreError
from smoothcert.report import read_store
from smoothcert.runs.check import require_sound
from smoothcert.runs.merge import merge
from smoothcert.runs.state import run_states
from smoothcert.runs.store import Manifest, ResultStore
from smoothcert.verification.verify import verify
from tests.verification.simulated import rechain, simulate, tamper


def certified(cells):
    return cells["predict"] != "-1"


def cells(**change):
    return lambda store: tamper(store, lambda _: change, certified)


def manifest(mend=True, **change):
    def spoil(store):
        path = store.folder / "manifest.json"
        values = json.loads(path.read_text())
        for name, value in change.items():
            place = values["environment"] if name == "values" else values["identity"]
            place[name] = value
            if value is None:
                del place[name]
        path.write_text(json.dumps(values))
        for part in store.parts() if mend else ():
            if change.get("noise"):
                for fields in part.fields:
                    fields[part.header.index("noise")] = change["noise"]
            rechain(store, part)

    return spoil


def write(name, text):
    return lambda store: (store.folder / name).write_text(text)


SPOILT = {
    "a radius above its counts": cells(radius="3.5"),
    "a radius a little above": lambda store: tamper(
        store, lambda c: {"radius": str(1.00001 * float(c["radius"]))}, certified
    ),
    "a bound above its counts": cells(p_lower="0.99999"),
    "a two-class radius above its counts": cells(multiclass_radius="3.5"),
    "no two-class radius": cells(multiclass_radius="nan"),
    "no bound": cells(p_lower=""),
    "an input of another set": cells(idx="6"),
    "a noise that nobody knows": manifest(noise="ablation"),
    "no noise": manifest(noise=None),
    "no norm": manifest(norm=None),
    "another norm": manifest(norm="l1"),
    "no tau": manifest(tau=None),
    "too small a tau": manifest(noise="exact"),
    "an image of fewer than no values": manifest(values=-784),
    "no classes": manifest(classes=None),
    "a step of 0": manifest(every=0),
    "a tolerance that nobody knows": manifest(procedure="tolerance"),
    "another seed than its settings give": manifest(noise_seed=5),
    "a broken chain": manifest(mend=False, alpha_each=0.0010000000000001),
    "checks that are none": write("checks.jsonl", "x\n"),
    "more that differ than were checked": write("checks.jsonl", '{"rechecked": 1, "differ": 2}\n'),
}


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()}


def certify_more(store):
    """As certify does before it adds rows."""
    there = store.manifest()
    asked = Manifest({**there.identity, "max": 50}, 50, there.environment)
    store.claim(asked, partial(require_sound, advice="certify again"))


@pytest.mark.parametrize("kind", SPOILT)
def test_everyone_refuses_it_and_nothing_is_changed(tmp_path, kind):
    store = simulate(tmp_path / "run" / "certify" / "test")
    SPOILT[kind](store)
    before = content(tmp_path)
    (verdict,) = verify(store.folder, record=False)
    assert verdict.answer == "differs"
    (state,) = run_states(store.folder)
    assert (state.stores[0].state, state.finished) == ("damaged", False)
    with pytest.raises(StoreError):
        merge([store.folder], tmp_path / "out")
    with pytest.raises(StoreError):
        certify_more(ResultStore(store.folder))
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    "kind", ["a radius above its counts", "a noise that nobody knows", "no noise", "no norm"]
)
def test_a_report_refuses_it_too(tmp_path, kind):
    store = simulate(tmp_path / "run" / "certify" / "test")
    SPOILT[kind](store)
    with pytest.raises(SmoothcertError):
        read_store(store.folder)


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
