"""The package's shape: imports point one way, files stay small, nothing heavy happens at import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcert

ROOT = Path(smoothcert.__file__).parent

# A module may import from its own layer and from those before it, never from those after.
LAYERS = [
    {"errors", "seeds", "philox"},
    {"files", "imports", "progress", "config"},
    {
        "bounds",
        "sequential",
        "noise",
        "exact_noise",
        "attacks",
        "constraints",
        "judge",
        "models",
        "data",
        "batchsize",
        "certificate",
        "fast",
    },
    {"counting"},
    {"smoothing", "methods"},
    {"run", "store", "tracking", "runtime"},
    {"certification", "soft_labels", "stepping", "training", "status", "empirical", "explain", "input_noise"},
    {"report", "recipes", "selftest", "reanalysis"},
    {"demo", "explaining", "reproducing"},
    {"commands"},
    {"evaluating"},
    {"cli", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def modules():
    return sorted(path for path in ROOT.rglob("*.py"))


def part(path):
    """The top-level module or package below smoothcert that a file belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "smoothcert":
            names = node.module.split(".")[1:]
            yield from [names[0]] if names else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("smoothcert.")]


@pytest.mark.parametrize(
    "path", [p for p in modules() if p != ROOT / "__init__.py"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_imports_point_one_way(path):
    own = part(path)
    assert own in LEVEL, f"give {own} a layer"
    for name in imported(path):
        if name in LEVEL:
            assert LEVEL[name] <= LEVEL[own], f"{path.name} imports {name} from a later layer"


def test_no_file_is_long():
    long = {str(path.relative_to(ROOT)): n for path in modules() if (n := len(path.read_text().splitlines())) > 300}
    assert not long


def test_public_names_load_on_first_use():
    code = "import sys, smoothcert; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in smoothcert.__all__:
        assert getattr(smoothcert, name) is not None
    assert set(smoothcert.__all__) == set(smoothcert._HOME)
    with pytest.raises(AttributeError, match="no attribute 'certifi'"):
        _ = smoothcert.certifi
    assert "fit" in dir(smoothcert)


@pytest.mark.parametrize("word", ["utils", "helpers", "common"])
def test_no_drawer_for_odds_and_ends(word):
    assert not list(ROOT.rglob(f"{word}.py"))
