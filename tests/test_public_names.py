"""What `from smoothcert import ...` gives: each name says what it is for, with types and an example that runs."""

import doctest
import inspect
import sys

import pytest

import smoothcert


@pytest.mark.parametrize("name", smoothcert.__all__)
def test_the_example_of_a_public_name_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = getattr(smoothcert, name)
    (test,) = doctest.DocTestFinder(recurse=False).find(
        found, name, sys.modules[found.__module__], globs={}
    )
    assert test.examples, f"{name} has no example"
    said = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", smoothcert.__all__)
def test_the_arguments_of_a_public_name_have_types(name):
    found = getattr(smoothcert, name)
    if isinstance(found, type) and issubclass(found, Exception):
        return  # it takes a message, as any other
    parameters = inspect.signature(found).parameters.values()
    assert [p.name for p in parameters if p.annotation is p.empty] == []


def test_the_list_is_that_of_the_types_and_nothing_else_is_there():
    """A type checker reads the imports at the top of the file, Python the table of homes."""
    assert sorted(smoothcert.__all__) == sorted(smoothcert._HOME)
    text = inspect.getsource(smoothcert)
    assert all(text.count(name) == 3 for name in ("certify_dataset", "load_model"))
