"""Stores as they are written verify; whatever is edited, lost, doubled or overstated is named."""

import json

import pytest

from smoothcert.runs.verified import vouched
from smoothcert.verification.verify import verify
from tests.verification.simulated import rechain, simulate, tamper

PROCEDURES = {
    "fixed": {},
    "exact": {"noise": "exact"},
    "uniform": {"noise": "uniform"},
    "laplace": {"noise": "laplace"},
    "radius": {"radii": (0.0, 0.25, 0.5), "noise": "exact"},
    "radius-laplace": {"radii": (0.0, 0.25), "noise": "laplace"},
    "tolerance": {"tolerance": 0.1, "n": 30_000},
    "skip_wrong": {"skip_wrong": True},
    "skip_wrong-radius": {"skip_wrong": True, "radii": (0.25,)},
    "simultaneous": {"simultaneous": True},
    "simultaneous-tolerance": {"simultaneous": True, "tolerance": 0.05, "n": 30_000},
}


@pytest.fixture
def store(tmp_path):
    return simulate(tmp_path / "store")


def problems(store):
    (verdict,) = verify(store.folder)
    return verdict.problems


def edited(store, change):
    """Rewrite the manifest, and chain all parts to it."""
    path = store.folder / "manifest.json"
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    for part in store.parts():
        rechain(store, part)


@pytest.mark.parametrize("name", PROCEDURES)
def test_a_store_of_every_procedure_verifies(tmp_path, name):
    (verdict,) = verify(simulate(tmp_path, **PROCEDURES[name]).folder)
    assert verdict.problems == []
    assert verdict.answer == "verified"
    assert verdict.text == "verified: 40 rows recomputed, 0 re-sampled, 0 differ"
    assert not any("less than their counts prove" in note for note in verdict.notes)


@pytest.mark.parametrize("name", PROCEDURES)
def test_a_claim_above_its_counts_is_found_in_every_procedure(tmp_path, name):
    """The forger knows the formulas and the chain, but not how to get other counts."""
    store = simulate(tmp_path, **PROCEDURES[name])
    radii = PROCEDURES[name].get("radii")
    change = {
        "p_lower": "0.9999999",
        "radius": str(radii[-1] if radii else 0.01),
        "predict": None,
        "correct": None,
    }

    def claim(cells):
        top = max(cells["counts0"].split(","), key=lambda entry: int(entry.split(":")[1])).split(
            ":"
        )[0]
        return {**change, "predict": top, "correct": str(int(top == cells["label"]))}

    index = tamper(store, claim, lambda cells: cells["predict"] == "-1")
    found = problems(store)
    assert any(
        f"input {index}: p_lower 0.9999999 is more than its counts prove" in text for text in found
    )


def certified(cells):
    return cells["predict"] != "-1"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"radius": "3.5"}, "radius 3.5 is more than p_lower"),
        ({"p_lower": "0.9999"}, "p_lower 0.9999 is more than its counts prove"),
        ({"p_lower": "nan"}, "p_lower nan is more than"),
        ({"p_lower": "0.4"}, "a class is claimed with p_lower 0.4 below 1/2"),
        ({"multiclass_radius": "3.5"}, "multiclass_radius 3.5 is more than its counts prove"),
        ({"n": "900"}, "n is 900, but its counts add up to 1000"),
        ({"n": "900", "counts": "0:900"}, "no input of this store has 900 estimation samples"),
        ({"n0": "99"}, "n0 is 99, but its counts add up to 100"),
        ({"n0": "99", "counts0": "0:99"}, "expected 100 selection samples, found 99"),
        ({"counts": "0:500,0:500"}, "expected class:count"),
        ({"counts": "0:1001,1:-1"}, "expected class:count"),
        ({"counts0": ""}, "its counts add up to 0"),
        ({"counts": f"0:{10**30}"}, "expected class:count"),
        ({"n": str(10**30)}, "column n: expected a whole number"),
        ({"n": "-1000"}, "n is -1000, but its counts add up to 1000"),
        ({"n": "many"}, "column n: expected a whole number"),
        ({"counts": "0:999,9:1"}, "a class beyond the 4 of the store"),
        ({"seed": "7"}, "expected noise and seed float 0, found float 7"),
        ({"noise": "exact"}, "expected noise and seed float 0, found exact 0"),
        (
            {"predict": "3", "label": "3", "correct": "1"},
            "predicts 3, but the selection samples name",
        ),
        ({"predict": "-1", "correct": "0"}, "an abstention has the radius"),
        ({"correct": "2"}, "expected 0 or 1"),
        ({"idx": "6"}, "the manifest has no such input"),
        ({"idx": "11"}, "another result than"),
    ],
)
def test_an_edited_row_is_named_even_if_the_chain_was_mended(store, change, problem):
    tamper(store, lambda _: change, certified)
    assert any(problem in text and "part-0-of-2.tsv, line" in text for text in problems(store))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"alpha": 2.0}, "no certification can have alpha 2.0 here"),
        ({"alpha": 1e-9}, "is more than its counts prove"),
        ({"classes": None}, "lacks settings of a certification (classes)"),
        ({"sigma": 0.25}, "is more than p_lower"),
        ({"sigma": -1.0}, "no certification can have sigma"),
        ({"tau": 0.01}, "is more than its counts prove"),
        ({"noise": "exact"}, "no certification can have tau 0.0 here"),
        ({"simultaneous": True}, "no certification can have alpha_each"),
        ({"norm": "l1"}, "no certification can have norm"),
        ({"procedure": "mine"}, "no certification can have procedure"),
        ({"seed": 3, "noise_seed": 3}, "expected noise and seed float 3"),
        ({"seed": -5, "noise_seed": 3}, "no certification can have noise_seed 3"),
        ({"noise_seed": None}, "lacks settings of a certification (noise_seed)"),
        ({"every": 0}, "no certification can have every 0 here"),
        (
            {"procedure": "tolerance"},
            "lacks settings of a certification (tolerance, looks, early_alpha)",
        ),
        ({"values": -784}, "no certification can have values -784 here"),
        ({"start": 8}, "the manifest has no such input"),
        ({"n": 10**15}, "no certification can have n 1000000000000000 here"),
        ({"noise": "quantum"}, "no certification can have noise 'quantum' here"),
        ({"inputs": 41}, "no certification can have inputs 41 here"),  # max is 40
        ({"every": -1}, "no certification can have every -1 here"),
        ({"inputs": 10**15}, "no certification can have inputs 1000000000000000 here"),
        ({"inputs": 0, "simultaneous": True}, "no certification can have inputs 0 here"),
    ],
)
def test_a_manifest_that_does_not_fit_its_rows_is_found(store, change, problem):
    def edit(values):
        values["identity"].update(change)
        values["inputs"] = values["identity"].pop("inputs", values["inputs"])
        values["environment"]["values"] = values["identity"].pop("values", 784)
        if "alpha" in change:
            values["identity"]["alpha_each"] = change["alpha"]

    edited(store, edit)
    assert any(problem in text for text in problems(store))


def test_a_manifest_edited_alone_breaks_the_chain(store):
    path = store.folder / "manifest.json"
    path.write_text(path.read_text().replace('"kernels": "auto"', '"kernels": "off"'))
    first, second = problems(store)
    assert "part-0-of-2.tsv, line 2, input 5: the chain is broken here" in first
    assert "or the manifest was changed" in second


def test_lost_rows_are_missing_and_doubled_ones_are_known(store):
    part = store.folder / "part-1-of-2.tsv"
    lines = part.read_text().splitlines(keepends=True)
    part.write_text("".join(lines[:-2]))
    (verdict,) = verify(store.folder)
    assert (verdict.answer, verdict.missing) == ("incomplete", [116, 122])
    assert verdict.text.startswith("INCOMPLETE: 2 of 40 inputs are missing")
    part.write_text("".join([*lines[:-2], lines[-1]]))  # one from the middle
    (verdict,) = verify(store.folder)
    assert verdict.answer == "differs"
    assert "line 20, input 122: the chain is broken" in verdict.problems[0]
    assert "1 missing" in verdict.text


def test_the_same_row_twice_is_noted(store):
    (part, _) = store.parts()
    copy = store.folder / "part-0-of-7.tsv"
    part.path.rename(copy)
    copied = store.parts()[0]
    rechain(store, copied)
    (verdict,) = verify(store.folder)
    assert verdict.answer == "verified"
    with store.writer(0, 2) as writer:
        writer.add(next(copied.rows()))
    (verdict,) = verify(store.folder)
    assert verdict.answer == "verified"
    assert any("the same as part-0-of-2.tsv, line 2, input 5" in note for note in verdict.notes)


@pytest.mark.parametrize(
    "change", [{"label": "3"}, {"counts0": "3:100"}, {"multiclass_radius": "0.0"}]
)
def test_two_rows_of_one_input_must_say_the_same(tmp_path, change):
    """Even where both are proved, and the data is not at hand to tell which is right."""
    store = simulate(tmp_path, shards=1)
    (part,) = store.parts()
    with store.writer(0, 2) as writer:
        row = next(row for row in part.rows() if row["predict"] == "-1" and row["label"] != "3")
        writer.add({**row, **change})
    assert any("another result than part-0-of-1.tsv, line" in text for text in problems(store))


def test_a_chain_that_was_cut_off_is_found(store):
    for part in store.parts():
        rows = [part.header, *part.fields]
        part.path.write_text("".join("\t".join(cells[:-1]) + "\n" for cells in rows))
    first, second = problems(store)
    assert "part-0-of-2.tsv: the column check, which chains the rows, was cut off" in first
    assert "part-1-of-2.tsv: the column check" in second


def test_damaged_parts_and_manifests_are_problems(store):
    part = store.folder / "part-0-of-2.tsv"
    whole = part.read_bytes()
    for damage, problem in (
        (whole.replace(b"\t5\t", b"\t5", 1)[:-1] + b"\nx\ty\n", "columns, found"),
        (b"\xff\xfe\n", "found binary data"),
        (b"idx\tlabel\tpredict\tradius\tcorrect\n5\t0\t0\t0.5\t1\n", "missing: time n0 n counts0"),
    ):
        part.write_bytes(damage)
        assert any(problem in text for text in problems(store))
    (store.folder / "manifest.json").write_text("{")
    assert any("damaged" in text for text in problems(store))


def test_claims_that_are_weaker_than_they_could_be_are_no_problem(store):
    tamper(store, lambda _: {"radius": "0.001", "p_lower": "0.51"}, certified)
    (verdict,) = verify(store.folder)
    assert verdict.answer == "verified"
    assert any("1 row claims less than its counts prove" in note for note in verdict.notes)


def test_a_verdict_is_kept_and_vouches_for_these_rows_alone(store):
    assert vouched(store.folder) is None
    verify(store.folder)
    assert vouched(store.folder).startswith(
        "verified: 40 rows recomputed, 0 re-sampled, 0 differ (smoothcert "
    )
    tamper(store, lambda _: {"time": "0:00:00.1"})
    assert vouched(store.folder) == "verified once, but changed since: verify it again"
