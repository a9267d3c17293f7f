"""Stores as they are written verify; whatever is edited, lost, doubled or overstated is named."""

import pytest

from smoothcert.runs.verified import vouched
from smoothcert.verification.verify import verify
from tests.verification.simulated import simulate, tamper

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


@pytest.mark.parametrize("name", PROCEDURES)
def test_a_store_of_every_procedure_verifies(tmp_path, name):
    (verdict,) = verify(simulate(tmp_path, **PROCEDURES[name]).folder)
    assert verdict.problems == []
    assert verdict.answer == "verified"
    assert verdict.text == "verified: 40 rows recomputed, 0 re-sampled, 0 differ"
    assert not any("less than proven" in note for note in verdict.notes)


@pytest.mark.parametrize("name", PROCEDURES)
def test_a_claim_above_its_counts_is_found_in_every_procedure(tmp_path, name):
    """The forger knows the formulas and the chain, but not how to get other counts."""
    store = simulate(tmp_path, **PROCEDURES[name])
    radii = PROCEDURES[name].get("radii")
    change = {
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
    assert any(f"input {index}: column radius: found" in text for text in found)


def certified(cells):
    return cells["predict"] != "-1"


def test_a_manifest_edited_alone_is_found_at_every_row(store):
    path = store.folder / "manifest.json"
    path.write_text(path.read_text().replace('"kernels": "auto"', '"kernels": "off"'))
    found = problems(store)
    assert len(found) == 40
    assert "part-0-of-2.tsv, line 2, input 5: column check: found" in found[0]


def test_lost_rows_are_missing_and_doubled_ones_are_known(store):
    part = store.folder / "part-1-of-2.tsv"
    lines = part.read_text().splitlines(keepends=True)
    part.write_text("".join(lines[:-2]))
    (verdict,) = verify(store.folder)
    assert (verdict.answer, verdict.missing) == ("incomplete", [116, 122])
    assert verdict.text.startswith("INCOMPLETE: 2 of 40 inputs are missing")
    part.write_text("".join([*lines[:-2], lines[-1]]))  # one from the middle
    (verdict,) = verify(store.folder)
    assert (verdict.answer, verdict.missing) == ("incomplete", [116])


def test_the_same_row_twice_is_noted(store):
    (first, _) = store.parts()
    first.path.rename(store.folder / "part-0-of-7.tsv")
    assert verify(store.folder)[0].answer == "verified"
    with store.writer(0, 2) as writer:
        writer.add(next(first.rows()))
    (verdict,) = verify(store.folder)
    assert (verdict.answer, verdict.rows) == ("verified", 40)
    assert any("1 row was made twice, and count" in note for note in verdict.notes)


def test_damaged_parts_and_manifests_are_problems(store):
    part = store.folder / "part-0-of-2.tsv"
    whole = part.read_bytes()
    for damage, problem in (
        (whole.replace(b"\t5\t", b"\t5", 1)[:-1] + b"\nx\ty\n", "columns, found"),
        (b"\xff\xfe\n", "found binary data"),
        (b"idx\tlabel\tpredict\tradius\tcorrect\n5\t0\t0\t0.5\t1\n", "missing: time counts0"),
    ):
        part.write_bytes(damage)
        assert any(problem in text for text in problems(store))
    (store.folder / "manifest.json").write_text("{")
    assert any("damaged" in text for text in problems(store))


def test_claims_that_are_weaker_than_they_could_be_are_no_problem(store):
    tamper(store, lambda _: {"radius": "0.001"}, certified)
    (verdict,) = verify(store.folder)
    assert verdict.answer == "verified"
    assert any("1 row claims less than proven" in note for note in verdict.notes)


def test_a_verdict_is_kept_and_vouches_for_these_rows_alone(store):
    assert vouched(store.folder) is None
    verify(store.folder)
    assert vouched(store.folder).startswith(
        "verified: 40 rows recomputed, 0 re-sampled, 0 differ (smoothcert "
    )
    tamper(store, lambda _: {"time": "0:00:00.1"})
    assert vouched(store.folder) == "verified once, but changed since: verify it again"
