"""`smoothcert report` and `status` of a certified run."""

import shlex

import pytest

from smoothcert.cli import main
from smoothcert.report.charts.drawings import DRAWINGS
from smoothcert.report.tables.parts import PARTS
from tests.cli.commands import fails, run
from tests.refusals import cases


def test_train_certify_status_report(capsys, certified, tmp_path):
    status = run(capsys, "status", certified)
    assert "gaussian on mnist-mini, sigma 0.5: trained, epoch 8 of 8" in status
    assert "certify six: all 6 inputs done (n 200, alpha 0.001, exact noise)" in status
    files = {kind: tmp_path / f"report.{kind}" for kind in ("html", "markdown", "latex", "csv")} | {
        "figure": tmp_path / "curves.svg"
    }
    options = [part for kind, path in files.items() for part in (f"--{kind}", path)]
    printed = run(capsys, "report", certified, *options, "--radius", 0, 0.5)
    assert "ACR" in printed
    assert "r=0.5" in printed
    for path in files.values():
        assert path.stat().st_size > 50
        assert str(path) in printed
    assert "<svg" in files["html"].read_text()


def test_files_are_there_for_a_reader_who_stops_early(capsys, certified, tmp_path, monkeypatch):
    """As `smoothcert report RUN --html report.html | head -1` does."""
    files = [tmp_path / name for name in ("t.csv", "f.svg", "report.html")]
    seen = []
    monkeypatch.setattr(
        "builtins.print", lambda *args, **more: seen.append([path.exists() for path in files])
    )
    main(
        [
            "report",
            str(certified),
            "--csv",
            str(files[0]),
            "--figure",
            str(files[1]),
            "--html",
            str(files[2]),
        ]
    )
    assert seen
    assert all(all(there) for there in seen)


def test_report_judges_stored_counts_again(capsys, certified):
    lines = run(capsys, "report", certified / "certify" / "six", "--alpha", 0.2).splitlines()
    usual = run(capsys, "report", certified / "certify" / "six").splitlines()
    assert float(lines[2].split()[3]) > float(
        usual[2].split()[3]
    )  # a larger alpha proves larger radii
    linf = run(capsys, "report", certified / "certify" / "six", "--norm", "linf").splitlines()
    _, _, norm, _, acr = linf[2].split()[:5]
    assert norm == "linf"
    assert float(acr) == pytest.approx(float(usual[2].split()[3]) / 28, abs=0.002)


def test_help_names_every_drawing_and_table(capsys):
    told = "".join(run(capsys, "report", "--help").split())  # lines are cut at hyphens too
    assert ",".join(DRAWINGS).replace(",losses", "orlosses") in told
    assert ",".join(PARTS) in told


@pytest.mark.parametrize(
    ("words", "message"),
    cases("""
        --draw differences --figure f.svg | differences need a run with labels beside
        --draw tail --figure f.svg | a drawing is one of accuracy,
        --draw confidence | --draw says what --figure writes, which is not given: add --figure confidence.svg
        --latex '' | --latex takes the name of a file to write, found an empty name
        --figure '' | --figure takes the name of a file to write, found an empty name
        --markdown .. | --markdown takes the name of a file to write, found the folder ..
        --tables envelope | an envelope needs two runs with labels or more, found a/six: name more of them
        --tables tail | a table is one of certified,
        --norm l3 | --norm is one of l2, linf, found 'l3'; did you mean l2?
        --bound ternary | --bound is one of binary, multiclass, found 'ternary'
        --tables envelope --group-by colour | one of method, sigma, folder, all, found 'colour'
        --tables differences --reference a | no run has the name 'a'
        --reference a | no run has the name 'a'
        --radius -1 --tables confidence | expected radii of at least 0
        --figure f.svg --draw trade-offs --least-accuracy 50 | a share from 0 to 1
        --figure ./r.html | r.html is to be written twice
        --tables certified confidence --latex t-confidence.csv | is the name of two tables
    """),
)
def test_what_cannot_be_made_is_refused_before_anything_is_written(
    capsys, certified, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    words = ["--csv", "t.csv", "--html", "r.html", *shlex.split(words)]
    assert message in fails(capsys, "report", certified / "certify" / "six", *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--serve", "--json"], "--json prints one document and ends"),
        (["--port", 8000], "--port is the port of --serve, which is not given"),
        (["--serve", "--port", 70_000], "--port is a number from 0 to 65535, found 70000"),
    ],
)
def test_a_server_that_cannot_be_is_refused(capsys, certified, words, message):
    assert message in fails(capsys, "report", certified / "certify" / "six", *words)


def test_another_alpha_is_for_all_inputs_together_where_the_first_was(capsys, certified):
    """Certified together at alpha 0.2, six inputs: judged again at 0.6, each has 0.1."""
    options = [
        "--every",
        100,
        "--max",
        6,
        "--n",
        200,
        "--device",
        "cpu",
        "--noise",
        "float",
        "--seed",
        0,
    ]
    run(
        capsys,
        "certify",
        certified,
        *options,
        "--name",
        "together",
        "--simultaneous",
        "--alpha",
        0.2,
    )
    run(capsys, "certify", certified, *options, "--name", "each", "--alpha", 0.1)
    again = run(capsys, "report", certified / "certify" / "together", "--alpha", 0.6)
    wanted = run(capsys, "report", certified / "certify" / "each")
    assert again.splitlines()[2].split()[1:] == wanted.splitlines()[2].split()[1:]
    assert "alpha is for all inputs together" in again
    assert "analysed again with alpha 0.6 (certified with 0.2)" in again
    assert "not formally sound" in again
    attack = [
        "--radius",
        0.5,
        "--noises",
        2,
        "--steps",
        2,
        "--n",
        100,
        "--max",
        2,
        "--against",
        "each",
    ]
    assert "note: certified by float noise: not formally sound" in run(
        capsys, "attack", certified, *attack
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--radius", "0", "0.5"],
        ["--radius", "0,0.5"],
        ["--radius", "0", "0,0.5", "0.5"],
    ],
)
def test_radii_with_spaces_or_commas_between_them(capsys, certified, words):
    head = run(capsys, "report", certified / "certify" / "six", *words).splitlines()[0]
    assert head.split()[-2:] == ["r=0.00", "r=0.50"]
    assert "found 'half'" in fails(capsys, "report", certified, "--radius", "half")


@pytest.fixture
def logs(tmp_path):
    """Certificates of two models as the field writes them, and the training log of one."""
    for name, radius in (("cohen", 0.5), ("macer", 0.75)):
        (tmp_path / name).mkdir()
        rows = "".join(f"{i}\t1\t1\t{radius}\t1\t0:00:01\n" for i in range(4))
        (tmp_path / name / "noise_0.5.tsv").write_text(
            f"idx\tlabel\tpredict\tradius\tcorrect\ttime\n{rows}"
        )
    (tmp_path / "cohen" / "log.txt").write_text(
        "epoch\tlr\ttrain loss\ttest acc\n0\t0.1\t1.5\t40\n1\t0.1\t1.2\t50\n"
    )
    return tmp_path


def test_what_is_reported_is_not_written_over(capsys, logs, certified):
    for place, output in (
        (logs / "macer" / "noise_0.5.tsv",) * 2,
        (certified, certified / "certify" / "six" / "t.csv"),
    ):
        before = sorted((path, path.read_bytes()) for path in logs.rglob("*") if path.is_file())
        assert "lies among the results" in fails(capsys, "report", place, "--csv", output)
        assert before == sorted(
            (path, path.read_bytes()) for path in logs.rglob("*") if path.is_file()
        )
        assert output == place or not output.exists()


@pytest.mark.parametrize("kind", ["--html", "--markdown", "--latex", "--csv", "--figure"])
def test_a_file_to_write_has_a_name(capsys, logs, kind):
    log = logs / "cohen" / "noise_0.5.tsv"
    assert "found an empty name; add a file name" in fails(capsys, "report", log, kind, "")
    assert f"found the folder {logs}; add" in fails(capsys, "report", log, kind, logs)


@pytest.mark.parametrize(
    ("names", "words", "message"),
    [
        (
            ["noise_0.5.tsv"],
            ["--reference", "cohen"],
            "--reference is for --tables differences, --draw differences,",
        ),
        (["noise_0.5.tsv"], ["--alpha", 0.01], "leave --alpha and --bound out, or name stores"),
        (
            ["noise_0.5.tsv", "log.txt"],
            [],
            "a training log, which holds no certificates; draw it by --draw losses",
        ),
        (
            [""],
            ["--draw", "losses", "--figure", "f.svg"],
            "/cohen/log.txt (of training, for --draw losses)",
        ),
        ([".."], [], "/*/*.tsv (of certificates)"),
    ],
)
def test_what_logs_cannot_do_is_refused_with_what_to_do(
    capsys, logs, monkeypatch, names, words, message
):
    monkeypatch.chdir(logs)
    assert message in fails(capsys, "report", *(logs / "cohen" / name for name in names), *words)
    assert not (logs / "f.svg").exists()


def test_an_unfinished_line_of_a_training_log_is_told(capsys, logs):
    log = logs / "cohen" / "log.txt"
    log.write_text(log.read_text() + "2\t0.1\t1.")
    words = ["report", log, "--draw", "losses", "--figure", logs / "f.svg"]
    main([str(word) for word in words])
    assert "log.txt: unfinished last line left out" in capsys.readouterr().err


def test_l_infinity_radii_of_logs(capsys, logs):
    log = logs / "cohen" / "noise_0.5.tsv"
    printed = run(
        capsys, "report", log, "--norm", "linf", "--dimension", 3072, "--radius", "0,2/255", "3/255"
    )
    assert printed.splitlines()[0].split()[-3:] == ["r=0.00", "r=2/255", "r=3/255"]
    assert printed.splitlines()[2].split()[-3:] == ["100.0", "100.0", "0.0"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--norm", "linf"], "give the dimension"),
        (["--dimension", 3], "--dimension is the number of values of an input, for --norm linf"),
        (["--norm", "linf", "--alpha", 0.1], "no class counts"),
        (["--radius", "2/0"], "--radius takes a number, found '2/0'"),
        (
            ["--group-by", "all"],
            "--group-by is for --tables envelope or abstentions, or --draw envelope",
        ),
        (["--epochs", 3], "--epochs is for --draw losses, which is not given"),
        (
            ["--published", "catrs-supplement/table-7"],
            "--published is for --tables published or --draw trade-offs: give one of them",
        ),
    ],
)
def test_options_that_do_not_fit_together_are_refused(capsys, logs, words, message):
    assert message in fails(capsys, "report", logs / "cohen" / "noise_0.5.tsv", *words)


def test_another_dimension_than_the_recorded_one_is_refused(capsys, certified):
    message = fails(
        capsys, "report", certified / "certify" / "six", "--norm", "linf", "--dimension", 3072
    )
    assert "its inputs have 784 values, found --dimension 3072" in message


def test_envelopes_and_abstentions_of_groups(capsys, logs):
    places = [logs / name / "noise_0.5.tsv" for name in ("cohen", "macer")]
    figure = logs / "envelope.svg"
    options = [
        "--tables",
        "envelope",
        "abstentions",
        "--group-by",
        "all",
        "--figure",
        figure,
        "--draw",
        "envelope",
    ]
    printed = run(capsys, "report", *places, *options, "--radius", 0.75)
    assert "all runs  100.0 (100.0)" in printed
    assert "all runs: the best is macer at 0.75" in printed
    assert ">all runs</text>" in figure.read_text()


def test_losses_need_no_certificates(capsys, logs, certified):
    figure = logs / "losses.svg"
    training = logs / "cohen" / "log.txt"
    assert (
        run(capsys, "report", training, "--figure", figure, "--draw", "losses")
        == f"wrote {figure}\n"
    )
    assert "cohen: 1.5 to 1.2" in figure.read_text()
    printed = run(
        capsys, "report", certified, training, "--figure", figure, "--draw", "losses", "--epochs", 1
    )
    assert "ACR" in printed
    refused = fails(
        capsys,
        "report",
        training,
        "--figure",
        logs / "no.svg",
        "--draw",
        "losses",
        "--csv",
        logs / "no.csv",
    )
    assert "nothing to report" in refused
    assert not list(logs.glob("no.*"))
