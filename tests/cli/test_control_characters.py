"""Files that anyone may have written do not speak to the terminal: escapes at any place are spelt out."""

import copy
import json
import shutil
import unicodedata
import zipfile

import numpy as np
import pytest
import yaml

from smoothcert.data import load_dataset
from smoothcert.runs.store import ResultStore
from tests.cli.commands import ends, run
from tests.verification.simulated import recheck

# ends of lines, a title, colours in both ways, hidden and turned text, and a line that a reader would believe
EVIL = "a\x1b]0;t\x07\x1b[31m\x9b1m\x00\x7f\x85\u2028\u202e\u2066\u200b\r\nFORGED: verified\nFORGED"
ATTACK = ["--radius", 0.25, "--max", 1, "--n", 20, "--steps", 1, "--noises", 1, "--name", "pgd"]
FILES = [
    *("model.json", "config.yaml", "metrics.jsonl", "timing.jsonl", "environment.jsonl"),
    *("certify/six/manifest.json", "certify/six/checks.jsonl", "certify/six/verified.json"),
    "attack/pgd/manifest.json",
]


@pytest.fixture(scope="module")
def attacked(shared_run, tmp_path_factory):
    """The shared run without what is large, verified and attacked; and an image."""
    place = tmp_path_factory.mktemp("runs")
    large = shutil.ignore_patterns("weights.safetensors", "state.pt")
    made = shutil.copytree(shared_run, place / "a", ignore=large)
    (made / "weights.safetensors").symlink_to(shared_run / "weights.safetensors")
    np.save(place / "digit.npy", load_dataset("mnist-mini", "test").image(0))
    return made


@pytest.fixture
def place(attacked, tmp_path, capsys):
    if not (attacked / "attack").exists():
        run(capsys, "attack", attacked, "--against", "six", *ATTACK)
        run(capsys, "verify", attacked)
    shutil.copytree(attacked, tmp_path / "a", symlinks=True)
    return tmp_path


def leaves(values, at=()):
    """The places of a document: every value, and one more entry of every object."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from leaves(value, (*at, name))
        yield (*at, EVIL)
    else:
        yield at
        if isinstance(values, list) and values:
            yield from leaves(values[0], (*at, 0))


def spoilt(values, at):
    values = copy.deepcopy(values)
    inner = values
    for name in at[:-1]:
        inner = inner[name]
    inner[at[-1]] = EVIL
    return values


def plain(text):
    odd = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return odd <= {"\n", "\t"}


def harmless(said):
    text = said.out + said.err
    return plain(text) and not any(line[:6] == "FORGED" for line in text.split("\n"))


def read_by_all(capsys, place, *commands):
    """What commands print of a run, and the page."""
    folder, page, joint = place / "a", place / "page.html", place / "joint"
    report = ("report", folder, "--html", page, "--tables", "accuracy", "attacks")
    merge = ("merge", folder, "--out", joint)
    for words in (("status", folder), ("verify", folder), report, merge, *commands):
        _, said = ends(capsys, *words)
        assert harmless(said), words
    if page.exists():
        assert plain(page.read_text())
        page.unlink()
    shutil.rmtree(joint, ignore_errors=True)


@pytest.mark.parametrize("name", FILES)
def test_every_field_of_a_file(capsys, attacked, place, name):
    path, folder = place / "a" / name, place / "a"
    text = path.read_text()
    read, write = (
        (yaml.safe_load, lambda v: yaml.safe_dump(v, allow_unicode=True))
        if name.endswith("yaml")
        else (json.loads, lambda v: json.dumps(v) + "\n")
    )
    more = {
        "model.json": [("predict", folder, attacked.parent / "digit.npy", "--n", 20)],
        "certify/six/manifest.json": [("attack", folder, "--against", "six", *ATTACK)],
    }
    values = read(text.splitlines()[0] if name.endswith("jsonl") else text)
    for at in leaves(values):
        path.write_text(write(spoilt(values, at)))
        if "six/manifest" in name:
            store = ResultStore(path.parent)
            for part in store.parts():
                try:
                    recheck(store, part)  # so that more is read of it
                except Exception:  # the manifest is none any more
                    break
        read_by_all(capsys, place, *more.get(name, ()))


@pytest.mark.parametrize("name", ["certify/six", "attack/pgd", "log"])
def test_every_cell_of_rows(capsys, place, name):
    (source,) = (place / "a" / name.replace("log", "certify/six")).glob("part-*.tsv")
    path = place / "noise_0.5.tsv" if name == "log" else source
    header, row, *_ = (line.split("\t") for line in source.read_text().splitlines())
    for line in (0, 1):
        for column in range(len(header)):
            rows = [list(header), list(row)]
            rows[line][column] = EVIL.replace("\n", "\r")  # an end of line would end the row
            path.write_text("".join("\t".join(cells) + "\n" for cells in rows))
            if name == "log":
                _, said = ends(capsys, "report", path, "--html", place / "log.html")
                assert harmless(said)
            else:
                read_by_all(capsys, place)


def test_names_of_folders_and_files(capsys, place):
    folder = (place / "a").rename(place / f"r{EVIL.replace('/', '')}".replace("\0", ""))
    name = folder.name[1:]
    (folder / "certify" / "six").rename(folder / "certify" / f"s{name}")
    (folder / "attack" / "pgd").rename(folder / "attack" / f"p{name}")
    log = shutil.copy(folder / "certify" / f"s{name}" / "part-0-of-1.tsv", place / f"{name}.tsv")
    for words in (
        ("status", place),
        ("verify", folder),
        ("report", place, "--html", place / "page.html"),
        ("report", log),
        ("merge", folder, "--out", place / "joint"),
        ("pack", folder, "--out", place / "run.zip"),
        ("tables", name),
        ("predict", folder, log),
    ):
        _, said = ends(capsys, *words)
        assert harmless(said), words
    assert plain((place / "page.html").read_text())


def test_members_of_a_pack(capsys, place):
    run(capsys, "pack", place / "a")
    with zipfile.ZipFile(place / "a.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in members:
        if name.endswith((".safetensors", "report.html")):
            continue
        for other, content in ((name, members[name] + EVIL.encode()), (name + EVIL[1:], b"")):
            with zipfile.ZipFile(place / "evil.zip", "w") as archive:
                for member in {**members, other: content}.items():
                    archive.writestr(zipfile.ZipInfo(member[0].replace("\0", "")), member[1])
            for words in (("verify",), ("unpack", "--out", place / "there")):
                status, said = ends(capsys, *words, place / "evil.zip")
                assert harmless(said), (words, name)
                assert status or words[0] == "unpack"
            shutil.rmtree(place / "there", ignore_errors=True)
