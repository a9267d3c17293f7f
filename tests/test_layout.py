"""The package's shape: imports point one way, as docs/design.md shows; files stay small; nothing heavy at import."""

import ast
import re
import subprocess
import sys
import threading
from graphlib import TopologicalSorter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import smoothcert
from smoothcert import CertifyConfig, Selection, certify_dataset, load_dataset, load_recipe
from smoothcert.data import Dataset
from smoothcert.models import build_model
from smoothcert.runs.store import ResultStore
from smoothcert.training.fit import fit
from smoothcert.training.loop import Loop

ROOT = Path(smoothcert.__file__).parent
DOCS = ROOT.parent / "docs"
# files that came out above 300 lines when lines became 100 columns wide; each leaves when its room is rebuilt
LONG = {
    "certification/ray_workers.py",
    "cli/report.py",
    "kernels/prepare.py",
    "report/measures/overlays.py",
    "runs/store.py",
    "training/loop.py",
}


def _load(path):
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


imports = _load(DOCS / "imports.py")


def test_the_picture_has_every_room_and_no_other():
    drawn = [room for line in imports.rooms() for room in line]
    there = {
        path.stem
        for path in ROOT.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert sorted(drawn) == sorted(there - {"__init__", "__main__", "py"})


def test_imports_point_to_rooms_above_in_the_picture():
    level = {room: place for place, line in enumerate(imports.rooms()) for room in line} | {
        "__main__": 99
    }
    against = [
        f"{name} imports {target}"
        for name, targets in imports.graph().items()
        for target in targets
        if (a := imports.room_of(name)) != (b := imports.room_of(target)) and level[b] > level[a]
    ]
    assert against == []


def test_no_room_and_no_module_imports_itself_by_a_detour():
    TopologicalSorter(imports.room_graph()).prepare()  # raises CycleError
    graph = {
        name: {t for t in targets if not name.startswith(f"{t}.")}
        for name, targets in imports.graph().items()
    }
    paths = imports.modules()
    TopologicalSorter(
        {name: targets - _deferred(paths[name]) for name, targets in graph.items()}
    ).prepare()


def _deferred(path):
    """What a module imports for its types alone."""
    blocks = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If)]
    typed = [
        inner for block in blocks if "TYPE_CHECKING" in ast.dump(block.test) for inner in block.body
    ]
    return {f"{node.module}" for node in typed if isinstance(node, ast.ImportFrom)}


def test_relative_and_deferred_imports_are_seen(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "def f():\n    from . import store\n    from ..noise.streams import stream\n    import smoothcert.keys\n"
    )
    found = imports.imports_of("smoothcert.runs.module", path, imports.modules())
    assert found == {"smoothcert.runs.store", "smoothcert.noise.streams", "smoothcert.keys"}


def test_the_drawn_graph_is_that_of_the_code():
    """`python docs/imports.py` would change nothing."""
    assert (DOCS / "images" / "imports.svg").read_text(encoding="utf-8") == imports.picture()


def test_the_hallway_is_short_and_no_file_is_long():
    assert len(list(ROOT.glob("*.py"))) <= 10
    lines = {
        p.relative_to(ROOT).as_posix(): len(p.read_text().splitlines()) for p in ROOT.rglob("*.py")
    }
    assert {name for name, n in lines.items() if n > 300} <= LONG


@pytest.mark.parametrize("room", sorted(path.parent.name for path in ROOT.glob("*/__init__.py")))
def test_every_room_says_what_it_is_for(room):
    about = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text()))
    assert about is not None
    assert len(about.splitlines()) >= 2


def traced(work):
    """The files of the package whose functions run during `work`, in any thread."""
    seen = set()

    def profile(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)) and frame.f_code.co_name != "<module>":
            seen.add(Path(name).relative_to(ROOT).as_posix())

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        found = work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found, seen


def walk(title):
    """The files of a table in design.md."""
    section = (
        (DOCS / "design.md").read_text(encoding="utf-8").split(f"## {title}")[1].split("\n## ")[0]
    )
    return re.findall(r"^\| `([\w/]+\.py)`", section, re.MULTILINE)


def test_the_walk_of_a_certificate_is_the_one_described(tmp_path, monkeypatch):
    seen = set()
    complete = ResultStore.complete

    def watched(self, *args, **settings):
        monkeypatch.setattr(ResultStore, "complete", complete)
        _, files = traced(lambda: complete(self, *args, **settings))
        # per group of images, or less
        once = {f"runs/{name}.py" for name in ("claims", "executor", "locks", "manifest", "rows")}
        once |= {"runs/counts.py", "runs/identity.py"}
        once |= {"certification/certify.py", "certification/workers.py", "kernels/comparing.py"}
        once |= {"certification/row_checks.py", "noise/thresholds.py"}
        once |= {f"statistics/{name}.py" for name in ("bounds", "laws", "stopping")}
        once |= {"config/choices.py"}  # a look into a table
        seen.update(files - once)

    monkeypatch.setattr(ResultStore, "complete", watched)
    settings = {"selection": Selection(max=2), "device": "cpu", "quiet": True}
    config = CertifyConfig(sigma=0.5, n=300)
    certify_dataset(
        build_model("lenet", seed=0), load_dataset("mnist-mini"), tmp_path, config, **settings
    )
    described = walk("A certified image")
    assert seen - {"models/lenet.py"} == set(described)
    assert len(described) <= 20


def test_the_walk_of_a_batch_is_the_one_described(tmp_path, monkeypatch):
    seen = set()
    epoch = Loop._train_epoch

    def watched(self, *args):
        found, files = traced(lambda: epoch(self, *args))
        once_per_epoch = {
            "config/training.py",
            "runs/folder.py",
            "files.py",
            "training/checkpoint.py",
        }
        seen.update(files - once_per_epoch)
        return found

    monkeypatch.setattr(Loop, "_train_epoch", watched)
    whole = load_dataset("mnist-mini", "train")
    train = Dataset("mnist-mini", "train", whole.images[:256], whole.labels[:256], 10)
    changes = {"epochs": 1, "evaluate_every": 0, "method": {"name": "smoothmix"}}
    fit(
        load_recipe("mnist-mini/gaussian-0.50", changes).config,
        tmp_path,
        train=train,
        device="cpu",
        quiet=True,
    )
    described = walk("A training batch")
    assert seen == set(described)
    assert len(described) <= 15


def test_public_names_load_on_first_use():
    code = (
        "import sys, smoothcert; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in smoothcert.__all__:
        assert getattr(smoothcert, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'certifi'"):
        _ = smoothcert.certifi
    assert "fit" in dir(smoothcert)


@pytest.mark.parametrize("word", ["utils", "helpers", "common"])
def test_no_drawer_for_odds_and_ends(word):
    assert not list(ROOT.rglob(f"{word}.py"))
