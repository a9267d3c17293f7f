"""The page about many machines, followed: its commands as they stand, but for fewer images and samples."""

import os
import re
import shlex
import shutil
from pathlib import Path

from smoothcert.cli import main
from smoothcert.runs.store import ResultStore

PAGE = (Path(__file__).parent.parent / "docs" / "many-machines.md").read_text()
FEWER = {"40": "8", "1000": "100"}


def lines(block):
    return [
        line
        for line in block.replace("\\\n", " ").splitlines()
        if line and not line.startswith("#")
    ]


def give(line, monkeypatch, **variables):
    """Give a command as a shell does, with these variables set."""
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, str(value))
        program, *words = shlex.split(os.path.expandvars(line).removesuffix("&"), comments=True)
    assert program == "smoothcert"
    main([FEWER.get(word, word) for word in words])


def rows(store):
    """How often each image is there, by part."""
    return {
        part.path.name: sorted(int(row["idx"]) for row in part.rows())
        for part in ResultStore(store).parts()
    }


def test_the_page_can_be_followed(shared_run, tmp_path, monkeypatch, capsys):
    train, auto, array, requeued, apart, join = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert (
        train == "smoothcert train mnist-mini/gaussian-0.50 --out runs/gaussian\n"
    )  # as README, whose run this is
    copy = shutil.ignore_patterns("certify")
    for place in (".", "first", "second"):
        shutil.copytree(shared_run, tmp_path / place / "runs" / "gaussian", ignore=copy)
    monkeypatch.chdir(tmp_path)
    stores = tmp_path / "runs" / "gaussian" / "certify"

    first, second, wait, status = lines(auto)
    assert wait == "wait"
    for line in (first, second, status):
        give(line, monkeypatch)
    assert list(rows(stores / "test").values()) == [list(range(8))]
    assert "certify test: all 8 inputs done" in capsys.readouterr().out

    for script, tasks, parts in ((array, 4, 4), (requeued, 8, 1)):
        assert f"#SBATCH --array=0-{tasks - 1}\n" in script
        (line,) = lines(script)
        for task in range(
            parts
        ):  # where tasks take what is left, the first takes all that there is
            give(line, monkeypatch, SLURM_ARRAY_TASK_ID=task, SLURM_ARRAY_TASK_COUNT=tasks)
        made = rows(stores / re.search(r"--name (\w+)", line)[1])
        assert len(made) == parts
        assert sorted(image for part in made.values() for image in part) == list(range(8))

    for machine, line in zip(("first", "second"), lines(apart), strict=True):
        assert line.endswith(f"# on the {machine} {'machine' if machine == 'first' else 'one'}")
        monkeypatch.chdir(tmp_path / machine)
        give(line, monkeypatch)
    monkeypatch.chdir(tmp_path)
    *copies, status, merge = lines(join)
    for line in copies:
        rsync, option, source, target = shlex.split(line)
        assert (rsync, option) == ("rsync", "-a")
        shutil.copytree(source.replace(":", "/"), target)
    capsys.readouterr()
    give(status, monkeypatch)
    assert "together, 2 stores of one procedure have all 8 inputs\n" in capsys.readouterr().out
    give(merge, monkeypatch)
    assert (
        capsys.readouterr().out
        == "runs/gaussian/certify/apart: 8 rows added from 2 stores\nall 8 inputs\n"
    )
    said = [
        {row["idx"]: row["counts"] for row in ResultStore(stores / name).rows()}
        for name in ("test", "apart")
    ]
    assert said[0] == said[1]
    main(["verify", "runs/gaussian"])
