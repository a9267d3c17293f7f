"""Manifests of stores: other procedures are kept out, and what is damaged or missing is named."""

import json
from pathlib import Path

import pytest

from smoothcert.errors import StoreError
from smoothcert.runs.manifest import Manifest
from smoothcert.runs.store import ResultStore
from tests.runs.rows import MANIFEST, edited, written_part


def test_the_manifest_is_json_with_identity_and_environment(store):
    values = json.loads((store.folder / "manifest.json").read_text())
    assert values == {
        "format": 1,
        "identity": dict(MANIFEST.identity),
        "inputs": 3,
        "environment": dict(MANIFEST.environment),
    }


def test_another_procedure_is_refused_with_the_differing_keys_and_nothing_changes(store):
    before = (store.folder / "manifest.json").read_text()
    other = Manifest({**MANIFEST.identity, "n": 100, "alpha": 0.01}, 3, {})
    with pytest.raises(
        StoreError, match=r"alpha: 0.001 there, 0.01 asked; n: 1000 there, 100 asked.*another name"
    ):
        store.claim(other)
    assert (store.folder / "manifest.json").read_text() == before
    store.claim(
        Manifest(MANIFEST.identity, 3, {"torch": "another version"})
    )  # the environment may change


def test_damaged_or_missing_manifests_are_named(store, tmp_path):
    with pytest.raises(StoreError, match="not a result store"):
        ResultStore(tmp_path).manifest()
    (store.folder / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        store.manifest()
    (store.folder / "manifest.json").unlink()
    (store.folder / "part-0-of-1.tsv").write_text("")
    with pytest.raises(StoreError, match=r"no manifest.json"):
        store.claim(MANIFEST)


def test_of_two_processes_that_start_together_the_first_manifest_stays(store, monkeypatch):
    """The second has looked for a manifest before the first wrote its own."""
    before = (store.folder / "manifest.json").read_bytes()
    monkeypatch.setattr("pathlib.Path.exists", lambda self, **_: False)
    with pytest.raises(StoreError, match="n: 1000 there, 100 asked"):
        store.claim(Manifest({**MANIFEST.identity, "n": 100}, 3, {}))
    assert (store.folder / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("format", "words"),
    [(None, "made by an older smoothcert"), (0, "made by an older"), (2, "made by a newer")],
)
def test_a_store_of_another_version_says_so(store, format, words):
    """No word of damage: nothing is broken, and it is known what to do."""
    path = store.folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": format}))
    with pytest.raises(StoreError, match=words) as told:
        store.manifest()
    assert "damaged" not in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"format": 1, "identity": 3, "inputs": 1, "environment": {}}',
        '{"format": 1, "identity": {}}',
        "[]",
        '{"format": 1, "identity": {"sigma": "a half"}, "inputs": 1, "environment": {}}',
        '{"format": 1, "identity": {}, "inputs": 0, "environment": {}}',
        '{"format": 1, "identity": {}, "inputs": 1, "environment": {"host": 1.5}}',
    ],
)
def test_a_manifest_of_another_shape_is_damaged(store, text):
    (store.folder / "manifest.json").write_text(text)
    for read in (store.manifest, lambda: store.claim(MANIFEST)):
        with pytest.raises(StoreError, match="damaged"):
            read()


def test_a_manifest_that_appears_with_the_first_rows_is_not_missing(tmp_path, monkeypatch):
    """Another process writes both while this one looks for a manifest."""
    other, late = ResultStore(tmp_path), ResultStore(tmp_path)
    exists = Path.exists

    def looked(path, **_):
        found = exists(path)
        monkeypatch.undo()
        other.claim(MANIFEST)
        with other.writer(0, 1):
            pass
        return found

    monkeypatch.setattr("pathlib.Path.exists", looked)
    late.claim(MANIFEST)
    assert late.manifest() == other.manifest()


def test_an_unwritable_place_is_named():
    store = ResultStore(Path("/proc/smoothcert"))
    with pytest.raises(StoreError, match=r"could not write /proc/smoothcert/manifest\.json"):
        store.claim(MANIFEST)


def asked(inputs, **changes):
    return Manifest({**MANIFEST.identity, "max": inputs, **changes}, inputs, {})


@pytest.fixture
def ten(tmp_path):
    made = ResultStore(tmp_path / "ten")
    made.claim(asked(10))
    return made


def test_max_may_grow_and_a_smaller_one_changes_nothing(ten):
    part = written_part(ten)
    before = (ten.folder / "manifest.json").read_bytes()
    ten.claim(asked(4))
    assert (ten.folder / "manifest.json").read_bytes() == before
    ten.claim(asked(25))
    assert (ten.manifest().inputs, ten.manifest().identity["max"]) == (25, 25)
    ten.claim(asked(10))
    assert ten.manifest().inputs == 25
    ten.claim(Manifest({**MANIFEST.identity, "max": None}, 60, {}))
    assert (ten.manifest().inputs, ten.manifest().identity["max"]) == (60, None)
    assert part.read_text().count("\n") == 4
    assert edited(ten) == []  # the checks do not depend on it


@pytest.mark.parametrize("inputs", [4, 25])
def test_inputs_that_share_one_alpha_keep_their_number(tmp_path, inputs):
    made = ResultStore(tmp_path)
    made.claim(asked(10, simultaneous=True))
    with pytest.raises(
        StoreError,
        match=f"shares its alpha among 10 inputs .*, found {inputs} asked for.*another name",
    ):
        made.claim(asked(inputs, simultaneous=True))
    assert made.manifest().inputs == 10
