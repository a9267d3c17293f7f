"""Files that were damaged: each is named, in words and without a traceback, and nothing good beside it is lost."""

import random
import shutil

import pytest

from tests.faults.commands import RECIPE, good, kill, outcome, refused, rows, run, start, wait_until
from tests.faults.conftest import CERTIFY

PART = "part-0-of-1.tsv"


@pytest.fixture
def copy(trained, certified, tmp_path):
    """The run with its sixty certificates, to be damaged."""
    return shutil.copytree(trained, tmp_path / "run")


def table(said):
    """The numbers of a printed report."""
    return [line.split() for line in said.splitlines() if line.split()[1:3] == ["0.5", "60"]]


def test_a_flipped_bit_in_a_part(copy, log):
    """At twelve places: verify names the file; report and status name it too, or show what they showed before."""
    part, chance = copy / "certify" / "test" / PART, random.Random(2)
    whole = part.read_bytes()
    report, status = good("report", copy), good("status", copy)
    told = 0
    for place in sorted(chance.sample(range(len(whole)), 12)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(7)
        part.write_bytes(damaged)
        answer, said = run("verify", copy)
        assert answer != 0, (place, said)
        assert PART in said, (place, said)
        if told < 3:
            log("printed", f"bit of byte {place}: {shortened(said, copy)}")
            told += 1
        for command, before in (("report", report), ("status", status)):
            answer, said = run(command, copy)
            assert (answer == 2 and PART in said) or table(said) == table(before), (place, said)
    log(
        "done",
        "a bit flipped at each of 12 random places of a part; verify, report and status asked",
    )
    log(
        "found",
        "verify named the file each time; report and status named it, or their numbers were unaffected",
    )
    part.write_bytes(whole)
    assert "verified: 60 rows" in good("verify", copy)


def shortened(said, place):
    return "\n".join(said.replace(f"{place}/", "RUN/").replace(str(place), "RUN").splitlines()[:3])


@pytest.mark.parametrize("left", [3, 60, -40, -1])
def test_a_torn_line(certified, copy, log, left):
    """In the header, in the first row, in the last one, and without its newline."""
    part = copy / "certify" / "test" / PART
    part.write_bytes(part.read_bytes()[:left])
    said = good("status", copy)
    log("done", f"a part cut to {left if left > 0 else 'all but ' + str(-left)} bytes")
    (line,) = [line for line in said.splitlines() if "certify test" in line]
    log("printed", line)
    assert f"{0 if left > 0 else 59} of 60 inputs done" in line
    good("certify", copy, *CERTIFY)
    assert rows(copy / "certify" / "test") == rows(certified)
    assert "verified: 60 rows" in good("verify", copy)
    log(
        "found",
        "the same command made what was missing: all rows are those of a store that was never disturbed",
    )


def test_foreign_files_in_a_store(certified, copy, log):
    store = copy / "certify" / "test"
    (store / "notes.txt").write_text("not ours")
    (store / "part-of-a-poem.txt").write_text("not ours")
    good("certify", copy, *CERTIFY)
    assert "verified: 60 rows" in good("verify", copy)
    log(
        "done",
        "notes.txt and part-of-a-poem.txt put into a store, then files and a folder with the names of parts",
    )
    for name, content in (
        ("part-9-of-9.tsv", b"name,points\nAnna,3\n"),
        ("part-1-of-2.tsv", bytes(range(256))),
        ("part-2-of-3.tsv", None),
    ):
        foreign = store / name
        foreign.mkdir() if content is None else foreign.write_bytes(content)
        for words in (
            ["certify", copy, *CERTIFY],
            ["verify", copy],
            ["report", copy],
            ["status", copy],
        ):
            status, said = run(*words)
            assert status != 0, (words, said)
            assert name in said, (words, said)
            if words[0] == "certify":
                log("printed", shortened(said, copy))
        foreign.rmdir() if content is None else foreign.unlink()
    assert rows(store) == rows(certified)
    assert (store / "notes.txt").read_text() == "not ours"
    good("certify", copy, *CERTIFY)


@pytest.mark.parametrize("content", [None, b"", b'{"identity": {', b"\x00\xff"])
def test_a_manifest_that_is_lost_or_damaged(certified, copy, log, content):
    store = copy / "certify" / "test"
    manifest = (store / "manifest.json").read_bytes()
    if content is None:
        (store / "manifest.json").unlink()
    else:
        (store / "manifest.json").write_bytes(content)
    log(
        "done",
        "manifest.json deleted" if content is None else f"manifest.json replaced by {content!r}",
    )
    message = refused("certify", copy, *CERTIFY)
    log("printed", shortened(message, copy))
    assert "manifest.json" in message
    for command in ("verify", "status", "report"):
        status, said = run(command, copy)
        assert "manifest.json" in said or (status == 2 and str(copy) in said), (command, said)
        assert content is None or status != 0, (command, said)
    assert rows(store) == rows(certified)
    (store / "manifest.json").write_bytes(manifest)
    assert "verified: 60 rows" in good("verify", copy)
    log("found", "the rows were left alone; with the manifest back, the store is verified")


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    return (
        content[: len(content) // 2]
        + bytes([content[len(content) // 2] ^ 4])
        + content[len(content) // 2 + 1 :]
    )


def nothing(content):
    return b""


@pytest.mark.parametrize("damage", [cut, flipped, nothing])
def test_damaged_weights(copy, log, damage):
    weights = copy / "weights.safetensors"
    before = weights.read_bytes()
    weights.write_bytes(damage(before))
    message = refused("certify", copy, *CERTIFY, "--max", 70)
    log("done", f"weights.safetensors {damage.__name__}")
    log("printed", shortened(message, copy))
    assert "weights.safetensors" in message
    assert "weights" in run("verify", copy)[1]
    weights.write_bytes(before)
    assert "verified: 60 rows" in good("verify", copy)


def test_a_damaged_state(trained, tmp_path, log):
    """Of a training that was killed after its first epoch; with the state put back, it goes on to the same end."""
    out = tmp_path / "run"
    words = ["train", *RECIPE, "--out", out]
    process = start(*words)
    wait_until((out / "state.pt").exists, process)
    if not kill(process):
        pytest.skip("the training was quicker than the kill")
    before = (out / "state.pt").read_bytes()
    for damage in (cut, flipped, nothing):
        (out / "state.pt").write_bytes(damage(before))
        message = refused(*words)
        log("done", f"state.pt {damage.__name__}")
        log("printed", shortened(message, out))
        assert "state.pt is damaged" in message
        assert (out / "state.pt").read_bytes() == damage(before)
    (out / "state.pt").write_bytes(before)
    good(*words)
    assert outcome(out) == outcome(trained)


@pytest.mark.parametrize("name", ["config.yaml", "model.json", "metrics.jsonl"])
def test_other_damaged_files_of_a_run(copy, log, name):
    whole = (copy / name).read_bytes()
    (copy / name).write_bytes(b'{"a": [\n' + whole)
    words = {"config.yaml": ["train", *RECIPE, "--out", copy], "model.json": ["certify", copy, *CERTIFY],
             "metrics.jsonl": ["status", copy]}[name]  # fmt: skip
    status, said = run(*words)
    log("done", f"a torn line put before {name}, then {words[0]}")
    log("printed", shortened(said, copy))
    assert status != 0
    assert name in said
    (copy / name).write_bytes(whole)
    assert run(*words)[0] == 0
