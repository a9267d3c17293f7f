"""`smoothcert verify`, `pack` and `unpack`, on README's run; and a finished run on a disk that can only be read."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from smoothcert.cli import main
from tests.cli.commands import fails, run


@pytest.fixture
def copy(shared_run, tmp_path):
    return shutil.copytree(shared_run, tmp_path / "a")


def status(capsys, *arguments):
    """Exit status and output of a command that does not raise an error."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return stop.value.code, capsys.readouterr().out


def test_a_run_is_verified_edited_repaired_packed_and_unpacked(capsys, copy, tmp_path):
    part = copy / "certify" / "six" / "part-0-of-1.tsv"
    said = run(capsys, "verify", copy, "--resample", "50%", "--device", "cpu")
    assert said.startswith(
        f"{copy}/certify/six: verified: 6 rows recomputed, 3 re-sampled, 0 differ; 6 of 1,000 inputs"
    )
    whole = part.read_text()
    lines = whole.splitlines(keepends=True)
    part.write_text("".join([*lines[:2], lines[2].replace("\t200\t", "\t201\t"), *lines[3:]]))
    code, said = status(capsys, "verify", copy)
    assert code == 1
    assert "part-0-of-1.tsv, line 3, input 1: column check" in said
    assert ": DIFFERS: " in said
    part.write_text("".join(lines[:-1]))
    code, said = status(capsys, "verify", copy / "certify" / "six")
    assert code == 3
    assert "  missing: input 5\n" in said
    code, said = status(capsys, "verify", copy / "certify" / "six", "--json")
    assert (code, json.loads(said)["stores"][0]["missing"]) == (3, [5])
    part.write_text(whole)
    file = tmp_path / "a.zip"
    assert f"wrote {file}" in run(capsys, "pack", copy)
    assert f"{file}/certify/six: verified: 6 rows" in run(capsys, "verify", file)
    assert str(tmp_path / "there" / "a") in run(capsys, "unpack", file, "--out", tmp_path / "there")
    assert "verified: 6 rows" in run(capsys, "verify", tmp_path / "there" / "a")
    assert "is there already" in fails(capsys, "unpack", file, "--out", tmp_path / "there")
    assert "found none" in fails(capsys, "verify", tmp_path / "there")


def test_the_verdict_for_machines(capsys, copy):
    (verdict,) = json.loads(run(capsys, "verify", copy, "--json"))["stores"]
    assert verdict["name"] == f"{copy}/certify/six"
    kept = json.loads((copy / "certify" / "six" / "verified.json").read_text())
    assert (verdict["verdict"], verdict["rows"], verdict["problems"]) == ("verified", 6, [])
    assert verdict.items() <= kept.items()
    assert kept["smoothcert"]


def test_the_report_shows_the_verdict_until_the_rows_change(capsys, copy, tmp_path):
    log = tmp_path / "noise_0.5.tsv"
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t7\t7\t1.2\t1\t0:00:01\n")

    def section():
        run(capsys, "report", copy, log, "--html", tmp_path / "report.html")
        return (tmp_path / "report.html").read_text()

    assert 'id="verified"' not in section()
    run(capsys, "verify", copy, "--resample", "2", "--device", "cpu")
    told = "according to verified.json in the store: verified: 6 rows recomputed, 2 re-sampled, 0 differ"
    assert told in section()
    assert "no record" not in section()  # a log can have none
    run(capsys, "verify", copy)  # says less of the same rows: the stronger record stays
    assert "2 re-sampled" in section()
    part = copy / "certify" / "six" / "part-0-of-1.tsv"
    part.write_text("".join(part.read_text().splitlines(keepends=True)[:-1]))
    assert "verified once, but changed since" in section()


def test_a_finished_run_on_a_disk_that_can_only_be_read(copy):
    """A real one: for root a mount of its own that is read-only, for others folders that may not be written."""
    commands = ["certify a --max 6 --n 200 --name six", "certify a --max 3 --n 200 --name six", "status a", "report a",
                "verify a"]  # fmt: skip
    code = "import sys; from smoothcert.cli import main; [main(command.split()) for command in sys.argv[1:]]"
    script = f"! touch a/certify/six/x 2>/dev/null && {shlex.join([sys.executable, '-c', code, *commands])}"
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    if os.getuid() == 0:
        mounted = f"mount --bind a a && mount -o remount,bind,ro a && {script}"
        words = ["unshare", "--mount", "sh", "-c", mounted]
        if subprocess.run([*words[:2], "true"], check=False).returncode:
            pytest.skip("this root may not mount")
    else:
        for path in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
            path.chmod(0o555)
        words = ["sh", "-c", script]
    done = subprocess.run(words, cwd=copy.parent, capture_output=True, text=True, check=False)
    for path in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified: 6 rows recomputed" in done.stdout
    assert "note: the verdict was not kept: could not write" in done.stdout
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
