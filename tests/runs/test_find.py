"""Folders of runs: what is found below them, in which order, and what is passed over."""

import os
import random

import pytest

from smoothcert.runs.find import find_results, natural, stores_of


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


@pytest.fixture
def runs(tmp_path):
    touch(tmp_path / "a" / "seed10", "config.yaml", ".lock")  # has just begun
    touch(
        tmp_path / "a" / "seed9",
        "config.yaml",
        "model.json",
        "weights.safetensors",
        "certify/test/manifest.json",
    )
    touch(tmp_path / "b" / "deep" / "down", "model.json", "weights.safetensors")
    touch(tmp_path / "b" / "lone", "manifest.json", "part-0-of-1.tsv")
    touch(
        tmp_path / "c" / "lost", "certify/test/part-0-of-1.tsv"
    )  # its manifest is gone: nobody may overlook it
    return tmp_path


WANTED = ["a/seed9", "a/seed10", "b/deep/down", "b/lone", "c/lost"]


def found(folder):
    return [path.relative_to(folder).as_posix() for path in find_results(folder)]


def test_runs_and_stores_at_any_depth_in_natural_order(runs):
    assert found(runs) == WANTED
    assert [find_results(runs / name) for name in WANTED] == [[runs / name] for name in WANTED]
    assert find_results(runs / "b" / "deep") == [runs / "b" / "deep" / "down"]


def test_unrelated_folders_are_passed_over(runs):
    touch(
        runs / "other",
        "config.yaml",
        "README.md",
        "src/model.json",
        "app/manifest.json",
        "logs/part-0-of-1.tsv",
    )
    touch(runs / ".hidden", "model.json", "weights.safetensors")
    touch(
        runs / "a" / "seed9" / "soft-labels" / "model", "model.json", "weights.safetensors"
    )  # a part of that run
    touch(
        runs / "attack" / "pgd", "manifest.json", "part-0-of-1.tsv"
    )  # of an attack: no certificates
    assert found(runs) == WANTED
    assert find_results(runs / "other") == []


def test_links_are_followed_once(runs):
    os.symlink(runs, runs / "a" / "loop")
    os.symlink("itself", runs / "a" / "itself")
    os.symlink(runs / "a" / "seed9", runs / "z")  # the same run by another name
    os.symlink("nowhere", runs / "b" / "nowhere")
    assert found(runs) == WANTED
    assert found(runs / "z") == ["."]


@pytest.mark.parametrize(
    "names",
    [
        ["seed1", "seed2", "seed10", "seed10b", "seed010c"],
        ["noise_0.12", "noise_0.25", "noise_0.5", "noise_1.0"],
        ["", "2", "10", "a", "a1", "a1b2", "a1b10", "b"],
    ],
)
def test_names_are_counted_as_people_count(tmp_path, names):
    shuffled = random.Random(0).sample(names, len(names))
    assert sorted((tmp_path / f"-{name}" for name in shuffled), key=natural) == [
        tmp_path / f"-{n}" for n in names
    ]


def test_stores_of_a_run(tmp_path):
    touch(
        tmp_path,
        "certify/b10/manifest.json",
        "certify/b9/manifest.json",
        "certify/lost/part-0-of-2.tsv",
    )
    touch(tmp_path, "certify/notes/readme.txt", "certify/manifest.json", "attack/pgd/manifest.json")
    assert [store.name for store in stores_of(tmp_path)] == ["b9", "b10", "lost"]
