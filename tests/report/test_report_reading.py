"""Logs and stores, whole and damaged, and the names runs get."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.errors import DataError, StoreError
from smoothcert.report import read_log, read_results, read_store
from smoothcert.report.read.names import distinct_names, one_line, run_labels
from smoothcert.runs.rows import NoCertificates
from tests.report.rows import ROWS, check_rows


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "columns",
    [
        "idx label predict radius correct time",
        "idx label predict radius correct",
        "time correct radius basePredict predict label idx",
    ],
)
def test_log_in_any_column_order(write_log, columns, newline):
    c = read_log(write_log(ROWS, columns=columns.split(), newline=newline))
    check_rows(c)
    assert (c.sigma, c.n, c.alpha, c.expected, c.manifest, c.warnings) == (
        0.5,
        None,
        None,
        None,
        None,
        (),
    )
    assert not c.partial


def test_log_with_byte_order_mark_blank_lines_and_unordered_rows(write_log):
    path = write_log([ROWS[2], ROWS[0], ROWS[3], ROWS[1]], tail="\n\n")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    check_rows(read_log(path))


@pytest.mark.parametrize("text", ["0.4574", "0.0000", "1.91", "3.8", "0.000123", "1e-05", "2"])
def test_printed_radii(write_log, text):
    assert read_log(write_log([(0, 1, 1, text)])).radius[0] == float(text)


@pytest.mark.parametrize(
    ("path", "sigma"),
    [
        ("noise_0.25/cat-rs/noise_0.25.tsv", 0.25),
        ("noise_0.12/test/sigma_0.50", 0.5),
        ("cohen/noise_1.00_2110", 1.0),
        ("smoothmix/noise_0.25_adv", 0.25),
        ("noise_0.25/salman/noist_0.25.tsv", 0.25),
        ("cifar10c/gaussian_noise.tsv", None),
    ],
)
def test_sigma_from_the_path(write_log, path, sigma):
    assert read_log(write_log(ROWS, path)).sigma == sigma


def test_store(write_store):
    folder = write_store(ROWS[2:], ROWS[:2])
    c = read_store(folder)
    check_rows(c)
    assert (c.sigma, c.n0, c.n, c.alpha, c.noise, c.expected) == (0.5, 100, 1000, 0.001, "exact", 4)
    assert c.name == "run/test"
    assert c.p_lower.tolist() == pytest.approx([0.993116, 0.450771, 0.971773, 0.500676], abs=1e-6)
    assert c.counts.tolist() == ["7:1000", "2:500,3:500", "3:987,4:13", "0:550,1:450"]
    assert c.manifest["environment"] == {"smoothcert": "0.1.0"}
    assert c.source == folder
    assert not c.partial


def test_store_still_being_written(write_store):
    folder = write_store(ROWS[:2], [], tail="40\t1\t")
    (folder / "part-2-of-3.tsv").write_text("idx\tla")
    c = read_store(folder)
    assert (c.rows, c.expected, c.partial) == (2, 4, True)
    assert c.warnings == tuple(
        f"part-{i}-of-{n}.tsv: unfinished last line left out" for i, n in ((0, 2), (2, 3))
    )


def test_store_with_repeated_index(write_store):
    check_rows(read_store(write_store(ROWS[:3], ROWS[1:])))  # only the time differs
    with pytest.raises(StoreError, match=r"input 20: another result than part-0-of-2.tsv, line 3"):
        read_store(write_store(ROWS, [(20, 2, 2, "0.1")], run="other"))


def test_store_with_more_than_promised(write_store):
    with pytest.raises(StoreError, match="column idx: found '60', expected one of the 3 inputs"):
        read_store(write_store(ROWS, inputs=3))
    with pytest.raises(StoreError, match="missing required field `every`"):
        read_store(write_store(ROWS, inputs=3, every=None, run="unknown"))


@pytest.mark.parametrize("text", ["{", "[]", '{"inputs": 4}'])
def test_damaged_manifest(write_store, text):
    folder = write_store(ROWS)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        read_store(folder)


def test_folder_without_manifest(tmp_path):
    with pytest.raises(StoreError, match=r"it has no manifest\.json"):
        read_store(tmp_path)


def test_results_of_runs_stores_and_logs(write_store, write_log, tmp_path):
    store = write_store(ROWS, run="a", name="all")
    write_store(ROWS, run="a", name="every20")
    log = write_log(ROWS, "published/noise_0.5.tsv")
    results = read_results(
        tmp_path / "a", store, str(log)
    )  # the store is named twice, and counts once
    assert [c.name for c in results] == ["a/all", "a/every20", "published"]
    assert [c.name for c in read_results(tmp_path / "a")] == ["all", "every20"]
    assert [c.name for c in read_results(store)] == ["a/all"]


def test_results_leave_out_what_has_no_certificates_yet(write_store, write_log, tmp_path):
    log = write_log(ROWS)
    write_store([], run="empty")
    (tmp_path / "trained").mkdir()
    (tmp_path / "trained" / "config.yaml").touch()
    with pytest.warns(UserWarning, match="left out") as told:
        assert len(read_results(tmp_path / "empty", tmp_path / "trained", log)) == 1
    assert ["a run without certificates" in str(w.message) for w in told] == [False, True]
    with pytest.raises(NoCertificates, match="trained: a run without certificates"):
        read_results(tmp_path / "trained")
    with pytest.raises(NoCertificates, match="no certificates yet"):
        read_results(tmp_path / "empty")
    with pytest.raises(NoCertificates, match="nothing to report"):
        read_results()


def test_results_of_something_else(tmp_path):
    with pytest.raises(StoreError, match="found none of them there; name one of these"):
        read_results(tmp_path)
    with pytest.raises(StoreError, match="no such file or folder"):
        read_results(tmp_path / "absent")


def test_certificates_by_hand_are_checked(make):
    with pytest.raises(DataError, match="one entry per input, found 2, 2, 2, 2, 1"):
        make(
            [0.1, 0.2],
            correct=[1],
            idx=np.arange(2),
            label=np.zeros(2, int),
            predict=np.zeros(2, int),
        )
    with pytest.raises(NoCertificates):
        make([])


@pytest.mark.parametrize(
    ("places", "names"),
    [
        (
            [("d/noise_0.5/cohen/noise_0.5", 0.5), ("d/noise_0.5/cat-rs/noise_0.5", 0.5)],
            ["cohen", "cat-rs"],
        ),
        (
            [("d/noise_0.5/cohen/noise_0.5", 0.5), ("d/noise_1.0/cohen/noise_1.0", 1.0)],
            ["cohen", "cohen"],
        ),
        (
            [("noise_0.12/test/sigma_0.50", 0.5), ("noise_0.50/test/sigma_0.50", 0.5)],
            ["noise_0.12/test", "test"],
        ),
        ([("runs/a/test", None), ("runs/b/test", None)], ["a", "b"]),
        ([("runs/a/x/test", None), ("runs/test", None)], ["a/x/test", "test"]),
        ([("noise_0.5", 0.5), ("sigma_0.5", 0.5)], ["noise_0.5", "sigma_0.5"]),
        ([("x/noise_0.5", 0.5), ("x/sigma_0.5", 0.5)], ["noise_0.5", "sigma_0.5"]),
        ([("data/noise_0.5/cat-rs/noise_0.5", 0.5)], ["cat-rs"]),
        ([("a", None), ("a", None)], ["a (1)", "a (2)"]),
        (  # two releases: what all share goes, wherever it stands
            [
                ("scratch/logs/data/cifar10/cohen", 0.5),
                ("eth/eth-acr-weakness/cifar10/gaussian", 0.5),
            ],
            ["scratch/logs/data/cohen", "eth/eth-acr-weakness/gaussian"],
        ),
        (  # and of each release what its own logs share
            [
                ("scratch/logs/data/cifar10/cohen", 0.5),
                ("scratch/logs/data/cifar10/macer", 0.5),
                ("eth/eth-acr-weakness/cifar10/macer", 0.5),
                ("eth/eth-acr-weakness/cifar10/macer", 1.0),
                ("mine/cifar10/macer", 0.5),
            ],
            ["scratch/cohen", "scratch/macer", "eth/macer", "eth/macer", "mine/macer"],
        ),
        ([("x/a/b", None), ("x/b/a", None)], ["a/b", "b/a"]),
        ([("r/a/m", None), ("r/a/m/m", None), ("s/m", None)], ["r/a", "r/a/m", "s"]),
    ],
)
def test_names_tell_runs_apart(places, names):
    assert distinct_names([(Path(path), sigma) for path, sigma in places]) == names


PATHS = st.lists(st.sampled_from(["a", "b", "noise_0.5", "test"]), min_size=1, max_size=5)


@given(st.lists(PATHS, min_size=1, max_size=6, unique_by=tuple))
def test_names_of_different_places_differ(paths):
    names = distinct_names([(Path(*path), 0.5) for path in paths])
    assert len({*names}) == len(paths)
    assert all(names)


def test_labels_carry_sigma_only_where_it_differs():
    assert run_labels(["a", "b"], [0.5, 0.5]) == ["a", "b"]
    assert run_labels(["a", "a", "c\n d"], [0.5, 1.0, None]) == ["a (σ=0.5)", "a (σ=1)", "c d"]
    assert one_line("\x1b[31m\x00") == "[31m"
    assert one_line(" \n") == "run"
