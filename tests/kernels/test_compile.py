"""The kernels compile for a GPU, without one: Triton's interpreter, which runs them elsewhere, forgives more."""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import smoothcert

pytest.importorskip("triton")
from tests.kernels.compiling import CASES, cases, name_of

PACKAGE = Path(smoothcert.__file__).parent
ROOT = PACKAGE.parent


def compile_all(which, folder):
    """Compile the kernels in other processes, without the interpreter; those that were compiled."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(folder)}
    command = [sys.executable, "-m", "tests.kernels.compiling", which]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return Counter(done.stdout.split())


@pytest.mark.long
@pytest.mark.parametrize("which", ["first", "second"])
def test_kernels_compile_for_a_gpu(tmp_path, which):
    assert compile_all(which, tmp_path) == Counter(name_of(case.kernel) for case in cases(which))


def sources():
    """The name of each module of the package, its syntax tree, and what its imported names stand for."""
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        stands_for = {
            name.asname or name.name: f"{node.module}.{name.name}"
            for node in imports
            for name in node.names
        }
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts), tree, stands_for


def is_kernel(node):
    return isinstance(node, ast.FunctionDef) and any(
        "triton.jit" in ast.unparse(d) for d in node.decorator_list
    )


def full_name(node, module, stands_for):
    """Of ``kernel`` or ``module.kernel``, as it is written in a module."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{stands_for.get(node.value.id)}.{node.attr}"
    return stands_for.get(node.id, f"{module}.{node.id}") if isinstance(node, ast.Name) else None


def found_in_sources():
    """Kernels that are launched, and those of them and of all others that other kernels call."""
    kernels, launched, called = set(), set(), set()
    for module, tree, stands_for in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
                launched.add(full_name(node.func.value, module, stands_for))
            if is_kernel(node):
                kernels.add(f"{module}.{node.name}")
                inside = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
                called |= {full_name(call.func, module, stands_for) for call in inside}
    return kernels, kernels & launched, kernels & called


def test_every_launched_kernel_is_compiled_here():
    kernels, launched, called = found_in_sources()
    assert len(launched) > 20
    assert launched == {name_of(case.kernel) for case in CASES}
    assert kernels == launched | called, (
        "neither launched nor called by a kernel, or launched by another spelling"
    )
