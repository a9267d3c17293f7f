"""mACR and mAcc of corruption benchmarks, from the field's layout and from our stores."""

import json
import re

import pytest

from smoothcert.cli import main
from smoothcert.errors import ConfigError, StoreError
from smoothcert.report import (
    corrupted_stores,
    corruption_means,
    corruption_table,
    corruption_types_table,
    corruption_types_tables,
    read_corruptions,
    read_store,
    write_report,
)
from tests.cli.commands import options_of

ROW = [(0, 1, 1, "0.4"), (1, 1, 2, "0.9")]  # ACR 0.2, accuracy 50 %
FULL = [(0, 1, 1, "0.4"), (1, 1, 1, "0.8")]  # ACR 0.6, accuracy 100 %


@pytest.fixture
def graded(write_log, tmp_path):
    for severity, rows in ((1, FULL), (2, ROW)):
        write_log(rows, f"c/severity_{severity}/cohen/fog.tsv")
        write_log(ROW, f"c/severity_{severity}/cohen/snow.tsv")
    return tmp_path / "c"


def test_logs_elsewhere_are_left_out_and_told(capsys, graded, write_log, write_store):
    before = corruption_table(read_corruptions(graded))
    write_log(FULL, "c/cohen/fog.tsv")  # all severities in one file, as the release has too
    with pytest.warns(
        UserWarning, match=r"left out: 1 log of .*c beside those at severity_K/MODEL/CORRUPTION.tsv"
    ):
        assert corruption_table(read_corruptions(graded)) == before
    write_log(FULL, "c/severity_1/fog.tsv")
    run = write_store([(0, 1, 1, 0.5)], inputs=1)
    told = "note: left out: 2 logs of"
    for words in ([], [str(run)], [str(run), "--json"]):
        main(["report", *words, "--corruptions", str(graded)])
        printed = capsys.readouterr()
        assert told in printed.err
        assert "such as cohen/fog.tsv" in printed.err
    assert told.removeprefix("note: ") in json.loads(printed.out)["left_out"][0]


def test_means_over_types_then_over_severities(graded):
    (means,) = corruption_means(read_corruptions(graded)).values()
    assert [m.severity for m in means] == [1, 2, None]
    assert [m.acr for m in means] == pytest.approx([0.4, 0.2, 0.3])
    assert [m.accuracy for m in means] == pytest.approx([0.75, 0.5, 0.625])


def test_tables(graded):
    entries = read_corruptions(graded)
    table = corruption_table(entries)
    assert table.head == ("model", "ACR 1", "ACR 2", "mACR", "acc % 1", "acc % 2", "mAcc %")
    assert table.rows == (("cohen", "0.400", "0.200", "0.300", "75.0", "50.0", "62.5"),)
    types = corruption_types_table(entries, 1)
    assert types.rows == (
        ("snow", "0.200"),
        ("fog", "0.600"),
        ("mACR", "0.400"),
    )  # in the order of the benchmark
    assert types.head == ("ACR, severity 1", "cohen")
    assert corruption_types_table(entries, 1, accuracy=True).rows[-1] == ("mAcc %", "75.0")
    with pytest.raises(ConfigError, match="severity 3; known: 1, 2"):
        corruption_types_table(entries, 3)


def test_logs_of_corruptions_need_no_run_beside_them(capsys, graded, tmp_path):
    main(["report", "--corruptions", str(graded), "--csv", str(tmp_path / "t.csv")])
    assert "cohen  0.400  0.200  0.300" in capsys.readouterr().out
    assert "cohen,0.400,0.200,0.300" in (tmp_path / "t.csv").read_text()
    main(["report", "--corruptions", str(graded), "--tables", "corruption-types"])
    assert "mAcc %" in capsys.readouterr().out
    for words, found in (
        ([], "to report; only"),
        (
            ["--corruptions", str(graded), "--figure", str(tmp_path / "f.svg")],
            "found --figure without them",
        ),
        (["--corruptions", str(graded), "--alpha", "0"], "found --alpha without them"),
        (
            ["--corruptions", str(graded), "--tables", "certified"],
            "found --tables certified without them",
        ),
    ):
        with pytest.raises(SystemExit):
            main(["report", *words])
        assert found in capsys.readouterr().err
    assert not (tmp_path / "f.svg").exists()


def test_options_that_tables_of_corruptions_do_not_use_are_refused_whichever_they_are(
    capsys, graded, tmp_path
):
    """All that the usage names, so that a new option is used or refused, and never passed over."""
    options = {name: bool(re.match("[A-Z]", rest)) for name, rest in options_of("report").items()}
    used = {"--corruptions", "--tables", "--rounded", "--html", "--markdown", "--latex", "--csv"}
    assert used < options.keys()
    values = {
        "--alpha": "0.1",
        "--bound": "binary",
        "--norm": "linf",
        "--group-by": "sigma",
        "--draw": "accuracy",
    }
    for name in options.keys() - used:
        words = [values.get(name, str(tmp_path / "new") if name == "--data-dir" else "1")]
        with pytest.raises(SystemExit) as ended:
            main(["report", "--corruptions", str(graded), name, *(words if options[name] else [])])
        told = capsys.readouterr()
        assert (ended.value.code, told.err.startswith("error: ")) == (2, True)
        assert name in told.err
        assert "mACR" not in told.out
    main(["report", "--corruptions", str(graded), "--rounded", "--latex", str(tmp_path / "t.tex")])
    assert "mACR" in capsys.readouterr().out


def test_without_severities_and_without_the_uncorrupted_images(write_log, tmp_path):
    write_log(FULL, "m/cat-rs/identity.tsv")
    write_log(ROW, "m/cat-rs/fog.tsv")
    entries = read_corruptions(tmp_path / "m")
    assert len(entries) == 2
    (means,) = corruption_means(entries).values()
    assert [(m.severity, m.acr) for m in means] == [(None, pytest.approx(0.2))]
    table = corruption_table(entries)
    assert table.rows == (("cat-rs", "0.200", "50.0"),)
    assert "left out of the means, which are over the 15 types of mnist-c: identity" in table.notes
    assert corruption_types_table(entries).rows == (
        ("fog", "0.200"),
        ("mACR", "0.200"),
    )  # no corruption at all


def test_tables_of_types_have_the_models_in_the_order_of_the_methods_and_mark_the_best(
    write_log, tmp_path
):
    for model, rows in (("cat_rs", FULL), ("cohen", ROW), ("mine", ROW), ("stab", FULL)):
        for severity in (1, 2):
            write_log(rows, f"o/severity_{severity}/{model}/fog.tsv")
    entries = read_corruptions(tmp_path / "o")
    tables = corruption_types_tables(entries)
    assert [table.caption for table in tables] == [
        f"{measure} by type of corruption, severity {severity}"
        for severity in (1, 2)
        for measure in ("Average certified radius", "Accuracy in %")
    ]
    for table in tables:
        assert table.head[1:] == ("cohen", "stab", "cat_rs", "mine")
        assert table.best == {(0, 2), (0, 3), (1, 2), (1, 3)}
    means = corruption_table(entries)
    assert [row[0] for row in means.rows] == ["cohen", "stab", "cat_rs", "mine"]
    assert means.best == {(row, column) for row in (1, 2) for column in range(1, 7)}


def test_a_page_is_made_of_logs_of_corruptions_alone(capsys, graded, tmp_path):
    main(
        [
            "report",
            "--corruptions",
            str(graded),
            str(graded),
            "--rounded",
            "--html",
            str(tmp_path / "page.html"),
        ]
    )
    assert f"wrote {tmp_path / 'page.html'}" in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Certificates on corrupted images alone." in page
    assert page.count("<td>0.400</td><td>0.200</td><td>0.300</td>") == 2
    assert "Note: radii are rounded" in page
    assert "Certificates of 8 files" in page
    assert "Results" not in page.partition("<script")[0].partition("</style>")[2]


def test_the_page_has_a_section_of_corruptions(graded, make, tmp_path):
    write_report([make([0.5])], tmp_path / "page.html", corrupted=[read_corruptions(graded)])
    page = (tmp_path / "page.html").read_text()
    assert '<a href="#corruptions">' in page
    assert "on corrupted images alone" not in page
    section = page[page.index('<h2 id="corruptions">') :]
    assert section.index("mACR") < section.index(
        "Average certified radius by type of corruption, severity 2"
    )
    write_report([make([0.5])], tmp_path / "plain.html")
    assert "orruption" not in (tmp_path / "plain.html").read_text()


def test_our_stores(write_store):
    identity = {"dataset": "cifar10-c"}
    stores = [
        write_store(FULL, run="mix", name="a", inputs=2, split="fog/1", **identity),
        write_store(ROW, run="mix", name="b", inputs=2, split="snow/1", **identity),
        write_store(ROW, run="mix", name="c", inputs=2, dataset="cifar10", split="test"),
    ]
    entries = corrupted_stores([read_store(folder) for folder in stores])
    assert [(e.model, e.corruption, e.severity) for e in entries] == [
        ("mix", "fog", 1),
        ("mix", "snow", 1),
    ]
    assert corruption_table(entries).rows == (("mix", "0.400", "0.400", "75.0", "75.0"),)


def test_nothing_to_read(tmp_path, write_log):
    with pytest.raises(StoreError, match="found none"):
        read_corruptions(tmp_path)
    with pytest.raises(ConfigError, match="at least one log"):
        corruption_means([])
    write_log(ROW, "x/severity_low/cohen/fog.tsv")
    with pytest.raises(StoreError, match="found 'severity_low'"):
        read_corruptions(tmp_path / "x")


def test_runs_of_one_folder_name_are_two_models_and_each_type_counts_once(write_store):
    """`reproduce` names all runs seed0; a corruption may have been certified again with more samples."""

    def store(run, kind, rows, name="test", n=1000):
        about = {"dataset": "mnist-c", "split": kind, "n": n}
        return read_store(write_store(rows, run=run, name=name, inputs=2, **about))

    right = [(0, 1, 1, 0.5), (1, 1, 1, 0.5)]
    half, none = [(0, 1, 1, 0.5), (1, 1, 2, 0.5)], [(0, 1, 2, 0.5), (1, 1, 2, 0.5)]
    stores = [
        store("gaussian/seed0", "fog", right, "fog"),
        store("gaussian/seed0", "canny_edges", none, "canny"),
    ]
    stores += [
        store("gaussian/seed0", "fog", half, "again", n=2000),
        store("macer/seed0", "fog", right, "fog"),
    ]
    means = corruption_means(corrupted_stores(stores))
    assert {model: mean.accuracy for model, (mean,) in means.items()} == {
        "gaussian": 0.25,
        "macer": 1.0,
    }
    (entry,) = corrupted_stores([store("odd", "fog/<b>", right)])
    assert (entry.model, entry.severity) == ("odd", None)
