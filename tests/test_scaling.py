"""benchmarks/scaling.py: the simulation where its answer is known, and the table of docs/scaling.md."""

import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "benchmarks" / "scaling.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def quiet(script):
    """A cluster on which nothing takes time but the work itself."""
    return script["Cluster"](per_group=0.0, per_row=0.0, start=0.0, spread=0.0, slow=0.0)


def test_one_worker_takes_the_sum_and_several_share_it(script, quiet):
    seconds = np.full(6400, 0.5)
    assert script["simulate"](seconds, 1, quiet)[0] == pytest.approx(3200.0)
    assert (
        400.0 <= script["simulate"](seconds, 8, quiet)[0] <= 400.0 + 3.0
    )  # the last group of one of them
    late = dataclasses.replace(quiet, start=60.0)
    assert script["simulate"](seconds, 1, late)[0] == pytest.approx(3260.0)


def test_the_driver_limits_workers_that_are_too_quick_for_it(script, quiet):
    busy = dataclasses.replace(quiet, per_row=1.0)
    wall, driver = script["simulate"](np.full(500, 0.001), 64, busy)
    assert wall == pytest.approx(500.0, rel=0.01)
    assert driver == pytest.approx(1.0, rel=0.01)


def test_what_lost_workers_had_is_done_by_others(script, quiet):
    seconds = np.full(2000, 1.0)
    steady, unsteady = (
        script["simulate"](seconds, 8, dataclasses.replace(quiet, life=life))[0]
        for life in (float("inf"), 300.0)
    )
    assert steady == pytest.approx(250.0, rel=0.02)
    # half of each worker's time is lost when it lives and is away for five minutes on average
    assert 1.2 * steady < unsteady < 4 * steady


@pytest.mark.long
def test_the_table_of_the_page_is_what_the_script_prints(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(SCRIPT)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert capsys.readouterr().out.strip() in (ROOT / "docs" / "scaling.md").read_text(
        encoding="utf-8"
    )
