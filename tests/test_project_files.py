"""Files around the package: they parse, and say the same about versions."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import smoothcert

ROOT = Path(__file__).parent.parent
YAML = [
    ".pre-commit-config.yaml",
    "CITATION.cff",
    *(str(p.relative_to(ROOT)) for p in ROOT.glob(".github/**/*.yml")),
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def load(name):
    return yaml.safe_load((ROOT / name).read_text())


@pytest.mark.parametrize("name", YAML)
def test_yaml_files_parse(name):
    assert isinstance(load(name), dict)


@pytest.mark.parametrize("path", sorted(ROOT.glob("results/*.json")), ids=lambda path: path.name)
def test_results_parse(path):
    assert json.loads(path.read_text())


def test_the_version_is_the_same_everywhere():
    assert load("CITATION.cff")["version"] == smoothcert.__version__
    assert f"\n## {smoothcert.__version__} (" in (ROOT / "CHANGELOG.md").read_text()


def test_the_linter_of_commits_is_the_one_of_the_checks():
    (ruff,) = [
        repo
        for repo in load(".pre-commit-config.yaml")["repos"]
        if repo["repo"].endswith("ruff-pre-commit")
    ]
    assert f"ruff=={ruff['rev'].removeprefix('v')}\n" in (ROOT / "constraints.txt").read_text()


def test_the_versions_of_python_named_are_the_versions_tested():
    named = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", text)
        for text in PROJECT["classifiers"]
    ]
    versions = [match[1] for match in named if match]
    assert (
        load(".github/workflows/tests.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
        == versions
    )
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_addresses_are_those_of_one_repository():
    home = PROJECT["urls"]["Homepage"]
    assert all(address.startswith(home) for address in PROJECT["urls"].values())
    assert load("CITATION.cff")["repository-code"] == home
    assert f"git clone {home} " in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", ["bug", "wrong-certificate"])
def test_a_report_asks_for_version_command_and_manifest(name):
    fields = {
        field.get("id"): field for field in load(f".github/ISSUE_TEMPLATE/{name}.yml")["body"]
    }
    assert "smoothcert --version" in fields["version"]["attributes"]["label"]
    assert all(fields[key]["validations"]["required"] for key in ("version", "command", "manifest"))
