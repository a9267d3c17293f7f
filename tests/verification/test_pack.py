"""Packs: the same bytes from the same run, everything to check it inside, and nothing unpacked that is not a pack."""

import io
import json
import os
import shutil
import stat
import zipfile
from hashlib import sha256

import pytest

from smoothcert import build_model
from smoothcert.errors import StoreError
from smoothcert.runs.folder import ModelSpec, RunFolder, described
from smoothcert.runs.store import ResultStore
from smoothcert.verification.pack import pack
from smoothcert.verification.unpack import unpack
from smoothcert.verification.verify import verify
from tests.verification.simulated import recheck, simulate, tamper


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run whose name has a dot, with the certificates of its weights."""
    folder = RunFolder(tmp_path_factory.mktemp("packs") / "gaussian-0.50")
    folder.save_model(
        build_model("lenet", seed=0), ModelSpec("lenet", 10, "none", 0.5, "mnist-mini", (1, 28, 28))
    )
    store = simulate(folder.path / "certify" / "test")
    manifest = store.folder / "manifest.json"
    about = {"model": folder.spec().weights, **described(store.folder)}
    written = json.dumps(about)[1:-1]
    manifest.write_text(manifest.read_text().replace('"model": ""', written))
    for part in store.parts():
        recheck(store, part)
    (folder.path / "state.pt").write_bytes(b"the state of the training")
    return folder.path


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / made.name)


def test_a_pack_verifies_and_unpacks_to_the_same_files(run, tmp_path):
    file = pack(run)
    assert file == run.parent / "gaussian-0.50.zip"
    (verdict,) = verify(file)
    assert (verdict.answer, verdict.rows) == ("verified", 40)
    there = unpack(file, tmp_path / "there")
    assert there == tmp_path / "there" / run.name
    for path in there.rglob("*"):
        if path.is_file() and path.name not in ("report.html", "card.md", "SHA256SUMS"):
            assert path.read_bytes() == (run / path.relative_to(there)).read_bytes()
    assert not (there / "state.pt").exists()
    assert not list(there.rglob(".*"))
    card, sums = (there / "card.md").read_text(), (there / "SHA256SUMS").read_text()
    for path in there.rglob("*"):
        if path.is_file() and path.name != "SHA256SUMS":
            line = f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(there).as_posix()}"
            assert line in sums
    for words in (
        "sigma 0.5, n0 100, n 1000, alpha 0.001, float noise",
        "ACR",
        "r=0.25",
        "smoothcert verify gaussian",
    ):
        assert words in card
    assert verify(there)[0].answer == "verified"


def test_the_same_run_gives_the_same_bytes_whatever_the_times_of_its_files(run, tmp_path):
    first = pack(run, tmp_path / "a" / "pack.zip").read_bytes()
    for path in run.rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert pack(run, tmp_path / "b" / "pack.zip").read_bytes() == first


def test_what_is_unfinished_damaged_or_there_already_is_not_packed(run):
    part = run / "certify" / "test" / "part-0-of-2.tsv"
    whole = part.read_text()
    part.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    with pytest.raises(StoreError, match=r"cannot be packed, INCOMPLETE: 1 of 40"):
        pack(run)
    part.write_text(whole)
    tamper(
        ResultStore(part.parent),
        lambda _: {"radius": "9.0"},
        lambda cells: cells["predict"] != "-1",
    )
    with pytest.raises(
        StoreError, match=r"cannot be packed, DIFFERS: 1 problem .*column radius: found .9.0."
    ):
        pack(run)
    part.write_text(whole)
    file = pack(run)
    with pytest.raises(StoreError, match="is there already"):
        pack(run)
    assert verify(file)[0].answer == "verified"
    (run / "model.json").unlink()
    with pytest.raises(StoreError, match="is not a run folder"):
        pack(run, run.parent / "other.zip")


def test_a_pack_that_was_changed_on_the_way_is_found(run):
    content = pack(run).read_bytes()
    file = run.parent / "changed.zip"
    place = content.index(b"idx\tlabel") + 2000  # among the rows
    file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(StoreError, match="damaged"):
        verify(file)
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match="damaged or no pack"):
        verify(file)


def repacked(file, change):
    """The members of a pack after a change of them, as a file that `unpack` takes."""
    with zipfile.ZipFile(file) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    change(found)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in found.items():
            archive.writestr(*member(name, content))


ROOT = "gaussian-0.50"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("card.md", "card.md was altered"),
        ("report.html", "report.html was altered"),
        ("model.json", "model.json was altered"),
        ("certify/test/part-0-of-2.tsv", "part-0-of-2.tsv was altered"),
        ("SHA256SUMS", " is "),
        ("notes.txt", "notes.txt is extra"),
        ("certify/test/x/y", "certify/test/x/y is extra"),
    ],
)
def test_a_member_that_was_altered_or_put_in_is_named(run, name, problem):
    file = pack(run)

    def change(found):
        found[f"{ROOT}/{name}"] = found.get(f"{ROOT}/{name}", b"") + b"ACR 9.99\n"

    repacked(file, change)
    (verdict,) = verify(file)
    assert verdict.answer == "differs"
    assert any(problem in text for text in verdict.problems)


def test_a_member_that_was_left_out_is_named(run):
    file = pack(run)
    repacked(file, lambda found: found.pop(f"{ROOT}/report.html"))
    assert "report.html is not there" in verify(file)[0].problems[0]
    repacked(file, lambda found: found.pop(f"{ROOT}/SHA256SUMS"))
    assert "SHA256SUMS is missing" in verify(file)[0].problems[0]


@pytest.mark.parametrize(
    "change",
    [
        {"normalisation": "range=-1,1"},
        {"architecture": "resnet20"},
        {"options": {"width": 2}},
        {"sigma": 0.25},
        {"class_names": list("abcdefghij")},
    ],
    ids=str,
)
def test_another_model_json_than_was_certified_is_found(run, change):
    """Without PyTorch: the weights are the same, and only a network made of both would tell."""
    path = run / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    (verdict,) = verify(run)
    assert "model.json is not the one that was certified" in verdict.problems[0]
    with pytest.raises(StoreError, match="cannot be packed, DIFFERS"):
        pack(run)


def test_a_run_whose_place_or_data_has_another_name_is_the_same(run):
    path = run / "model.json"
    there = {"dataset": "folder:/elsewhere", "source": "/elsewhere/weights.pt"}
    path.write_text(json.dumps({**json.loads(path.read_text()), **there}))
    assert verify(run)[0].answer == "verified"


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "environment.jsonl"])
def test_a_damaged_file_of_the_run_is_found(run, name):
    (run / name).write_text("x\n")
    (verdict,) = verify(run)
    assert verdict.answer == "differs"
    assert name in verdict.problems[0]


def member(name, content=b"x", kind=stat.S_IFREG, **fields):
    found = zipfile.ZipInfo(name)
    found.external_attr = (kind | 0o644) << 16
    for field, value in fields.items():
        setattr(found, field, value)
    return found, content


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([member("../run/x")], "leads elsewhere"),
        ([member("run/../../x")], "leads elsewhere"),
        ([member("/run/x")], "leads elsewhere|no plain file"),
        ([member("C:/x")], "leads elsewhere"),
        ([member("run/a\\..\\..\\b")], "leads elsewhere"),
        ([member("run//x")], "no plain file"),
        ([member("./x")], "no plain file|leads elsewhere"),
        ([member("run/")], "no plain file"),
        ([member("x")], "no plain file in a folder"),
        ([member("run/link", b"/etc/passwd", stat.S_IFLNK)], "is a link"),
        ([member("run/pipe", b"", stat.S_IFIFO)], "is a link or no plain file"),
        ([member("run/x"), member("run/X")], "occurs twice"),
        ([member("run/x"), member("run/x")], "occurs twice"),
        ([member("run/x"), member("other/x")], "expected one folder in it, found 2"),
        ([member("run/bomb", bytes(10**6), compress_type=zipfile.ZIP_DEFLATED)], "is compressed"),
        ([member("run/a\x1b[2Jb")], r"'run/a\\x1b\[2Jb' has control characters"),
        ([member("run/a\nerror b")], "has control characters"),
        ([member("a\u202eb/x")], "has control characters"),
        ([member("/".join(["run", *"x" * 2000]))], "lies too deep"),
        ([], "expected one folder in it, found 0"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_no_pack_is_refused_before_anything_is_written(tmp_path, members, why):
    file = tmp_path / "evil.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for info, content in members:
            archive.writestr(info, content)
    with pytest.raises(StoreError, match=why):
        unpack(file, tmp_path / "in" / "there")
    assert not (tmp_path / "in").exists()
    assert list(tmp_path.iterdir()) == [file]


def test_members_that_share_their_bytes_are_refused(tmp_path):
    """As of a bomb without compression: many entries of the directory that name one large member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(*member("run/a", bytes(5000)))
        first = archive.infolist()[0]
        for number in range(3):
            again, _ = member(f"run/{number}")
            again.header_offset, again.CRC = first.header_offset, first.CRC
            again.file_size = again.compress_size = 5000
            archive.filelist.append(again)
        archive._didModify = True
    (tmp_path / "bomb.zip").write_bytes(buffer.getvalue())
    with pytest.raises(StoreError, match="overlap"):
        unpack(tmp_path / "bomb.zip", tmp_path)


def test_an_existing_folder_stays_as_it_is(run, tmp_path):
    file = pack(run)
    before = sorted(path.name for path in run.iterdir())
    with pytest.raises(StoreError, match="is there already"):
        unpack(file, run.parent)
    assert sorted(path.name for path in run.iterdir()) == before
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / run.name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="is there already"):
        unpack(file, tmp_path / "links")
    with pytest.raises(StoreError, match="no such file"):
        unpack(tmp_path / "missing.zip", tmp_path)
    for no_pack in (b"", b"not a zip"):
        (tmp_path / "none.zip").write_bytes(no_pack)
        with pytest.raises(StoreError, match="no pack of smoothcert"):
            unpack(tmp_path / "none.zip", tmp_path)
