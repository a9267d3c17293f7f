"""`smoothcert explain --ratios`, interrupted and killed: what is known is kept, and nothing else is taken for it."""

import signal

import pytest

from smoothcert.cli import main
from smoothcert.evaluation import path_figures
from smoothcert.interrupts import leave_on_signals
from tests.faults.commands import lines, rows
from tests.processes import Child

IMAGES = 12


def run(words):
    main([str(word) for word in words])


def run_reporting_images(report, words):
    """As `python -m smoothcert` does, but each image is reported before it is made."""
    leave_on_signals()
    real = path_figures.adversarial_path

    def reported(*arguments, **settings):
        report()
        return real(*arguments, **settings)

    path_figures.adversarial_path = reported
    run(words)


@pytest.fixture(scope="module")
def explain(shared_run):
    """The words of the command but for its folder."""
    return [
        "explain",
        shared_run,
        "--ratios",
        IMAGES,
        "--noises",
        4,
        "--steps",
        2,
        "--device",
        "cpu",
        "--out",
    ]


@pytest.fixture(scope="module")
def undisturbed(explain, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    run([*explain, out])
    return out


def the_store(out):
    (store,) = (out / ".ratios").iterdir()
    return store


def the_part(out):
    return the_store(out) / "part-0-of-1.tsv"


def results(out):
    return {path.name: path.read_bytes() for path in out.glob("mixing-ratios.*")}


def at_its_image(number, words):
    """A process of the command that is about to make its image of this number, counted from its own start."""
    child = Child(run_reporting_images, words, waits_at=number)
    for _ in range(number):
        child.next_report()
    return child


def test_an_interrupted_and_then_killed_command_goes_on_where_it_was(
    explain, undisturbed, tmp_path
):
    words = [*explain, tmp_path]
    assert at_its_image(5, words).interrupt(signal.SIGINT) == (130, 0)
    first = the_part(tmp_path).read_bytes()
    assert 1 <= lines(the_store(tmp_path)) <= 4
    assert at_its_image(3, words).kill()
    second = the_part(tmp_path).read_bytes()
    assert second.startswith(first)  # no row is made again
    assert len(second) > len(first)
    assert not results(tmp_path)
    run(words)
    assert the_part(tmp_path).read_bytes().startswith(second)
    assert rows(the_store(tmp_path)) == rows(the_store(undisturbed))
    assert len(rows(the_store(tmp_path))) == IMAGES
    assert results(tmp_path) == results(undisturbed)
    assert len(results(tmp_path)) == 2


def copy_cut(undisturbed, out, content):
    """The folder as it is in the middle of the work, with this in its part."""
    store = out / ".ratios" / the_store(undisturbed).name
    store.mkdir(parents=True)
    (store / "manifest.json").write_bytes((the_store(undisturbed) / "manifest.json").read_bytes())
    (store / "part-0-of-1.tsv").write_bytes(content)


def test_a_torn_line_is_made_again(explain, undisturbed, tmp_path):
    whole = the_part(undisturbed).read_bytes().splitlines(keepends=True)
    kept = b"".join(whole[:-2])
    copy_cut(undisturbed, tmp_path, kept + whole[-2][:-3])
    run([*explain, tmp_path])
    assert the_part(tmp_path).read_bytes().startswith(kept)
    assert rows(the_store(tmp_path)) == rows(the_store(undisturbed))
    assert results(tmp_path) == results(undisturbed)


def test_an_edited_line_is_no_result(explain, undisturbed, tmp_path, capsys):
    whole = the_part(undisturbed).read_bytes()
    line = next(line for line in whole.splitlines() if line.split(b"\t")[3] == b"1")
    cells = line.split(b"\t")
    copy_cut(
        undisturbed, tmp_path, whole.replace(line, b"\t".join([*cells[:4], b"0.5", *cells[5:]]))
    )
    with pytest.raises(SystemExit, match="2"):
        run([*explain, tmp_path])
    said = capsys.readouterr().err
    assert "part-0-of-1.tsv, line" in said
    assert f"delete {the_store(tmp_path)} to make its ratios again" in said
    assert not results(tmp_path)


def test_other_settings_begin_anew_and_more_images_do_not(shared_run, tmp_path):
    def stores(images=4, **changes):
        settings = {"noises": 2, "steps": 1, "step": 1.0, "seed": 0, **changes}
        words = [word for name, value in settings.items() for word in (f"--{name}", value)]
        run(
            [
                "explain",
                shared_run,
                "--ratios",
                images,
                *words,
                "--device",
                "cpu",
                "--out",
                tmp_path,
            ]
        )
        return {path.name: rows(path) for path in (tmp_path / ".ratios").iterdir()}

    (first,) = stores()
    for count, changes in enumerate(
        ({"noises": 3}, {"steps": 2}, {"step": 0.5}, {"seed": 1}), start=2
    ):
        assert len(stores(**changes)) == count
    more = stores(images=8)
    assert len(more) == 5
    assert len(more[first]) == 8
