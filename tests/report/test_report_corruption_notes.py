"""Which types of corruption mACR and mAcc are over, and what is told of the others."""

import json

import pytest

from smoothcert.cli import main
from smoothcert.data.corruptions import CORRUPTIONS
from smoothcert.report import (
    corrupted_stores,
    corruption_means,
    corruption_table,
    corruption_types_table,
    read_corruptions,
    read_store,
)
from tests.report.test_report_corruptions import FULL, ROW


def test_types_outside_of_the_benchmark_stand_below_the_means_and_do_not_change_them(
    write_log, tmp_path
):
    for kind in CORRUPTIONS["cifar10-c"]:
        write_log(ROW, f"c/severity_1/cohen/{kind}.tsv")
    before = read_corruptions(tmp_path / "c")
    for kind in (
        "spatter",
        "saturate",
        "fogg",
    ):  # spatter is one of the 15 of MNIST-C; the last is misspelt
        write_log(FULL, f"c/severity_1/cohen/{kind}.tsv")
    entries = read_corruptions(tmp_path / "c")
    assert len(entries) == 18
    assert corruption_means(entries) == corruption_means(before)
    left_out = (
        "left out of the means, which are over the 15 types of cifar10-c: fogg, saturate, spatter"
    )
    assert (corruption_table(before).notes, corruption_table(entries).notes) == ((), (left_out,))
    for accuracy, mean, other in ((False, "0.200", "0.600"), (True, "50.0", "100.0")):
        table = corruption_types_table(entries, 1, accuracy=accuracy)
        assert table.rows[:16] == corruption_types_table(before, 1, accuracy=accuracy).rows
        assert table.rows[15] == ("mAcc %" if accuracy else "mACR", mean)
        assert table.rows[16:] == (("fogg", other), ("saturate", other), ("spatter", other))
        assert left_out in table.notes


def test_spatter_is_in_the_means_of_mnist_c_but_not_in_those_of_cifar10_c(write_store):
    def entries(dataset, graded):
        kinds = (("fog", ROW), ("spatter", FULL))
        folders = [
            write_store(
                rows, run=dataset, name=kind, inputs=2, dataset=dataset, split=f"{kind}{graded}"
            )
            for kind, rows in kinds
        ]
        return corrupted_stores([read_store(folder) for folder in folders])

    found = {
        name: corruption_means(entries(name, graded))
        for name, graded in (("cifar10-c", "/1"), ("mnist-c", ""))
    }
    accuracies = {name: [mean.accuracy for mean in means[name]] for name, means in found.items()}
    assert accuracies == {"cifar10-c": [0.5, 0.5], "mnist-c": [0.75]}


def test_a_model_of_types_without_a_mean_has_none(write_log, tmp_path):
    write_log(FULL, "s/severity_1/cohen/saturate.tsv")
    entries = read_corruptions(tmp_path / "s")
    table = corruption_table(entries)
    assert table.rows == (("cohen", "-", "-"),)
    assert table.notes == (
        "left out of the means, which are over the 15 types of cifar10-c: saturate",
    )
    assert "cohen & - & -" in table.to_latex()
    assert corruption_types_table(entries, 1).rows == (("mACR", "-"), ("saturate", "0.600"))


def test_types_that_are_missing_everywhere_and_those_that_one_model_lacks_are_told(
    write_log, tmp_path
):
    for name in ("cohen/fog", "cohen/snow"):
        write_log(ROW, f"c/severity_1/{name}.tsv")
    write_log([*ROW, (2, 1, 1, "0.1")], "c/severity_1/macer/fog.tsv")
    named = "gaussian_noise, shot_noise"
    assert corruption_table(read_corruptions(tmp_path / "c")).notes == (
        f"13 of the 15 types of cifar10-c are missing ({named}, impulse_noise, ...): means are over the others",
        f"macer, severity 1: 14 of the 15 types of cifar10-c are missing (snow, {named}, ...): "
        "means are over the others",
        "the logs have between 2 and 3 inputs each",
    )


@pytest.mark.parametrize(
    ("kinds", "note"),
    [
        (
            ["fog"],
            "14 of the 15 types of cifar10-c or mnist-c are missing: means are over the others",
        ),
        (
            CORRUPTIONS["mnist-c"][:-1],
            "1 of the 15 types of mnist-c is missing (canny_edges): means are over the others",
        ),
        (CORRUPTIONS["mnist-c"], None),
        (["rain", "night"], None),  # of a benchmark that we do not know
    ],
)
def test_logs_of_a_benchmark_that_only_their_types_tell(write_log, tmp_path, kinds, note):
    for kind in kinds:
        write_log(ROW, f"m/cat-rs/{kind}.tsv")
    assert corruption_table(read_corruptions(tmp_path / "m")).notes == (
        () if note is None else (note,)
    )


def test_a_model_that_lacks_types_of_an_unknown_benchmark(write_log, tmp_path):
    for name in ("cohen/rain", "cohen/night", "macer/rain"):
        write_log(ROW, f"u/{name}.tsv")
    (note,) = corruption_table(read_corruptions(tmp_path / "u")).notes
    assert note == "macer: 1 of 2 corruption types is missing (night): means are over the others"


def test_a_severity_that_one_model_lacks_as_a_whole_is_told(write_log, tmp_path):
    for kind in CORRUPTIONS["cifar10-c"]:
        for name in (
            "severity_1/cohen",
            "severity_2/cohen",
            "severity_4/cohen",
            "severity_2/macer",
        ):
            write_log(ROW, f"c/{name}/{kind}.tsv")
    entries = read_corruptions(tmp_path / "c")
    told = "macer: no certificates of severity 1 or 4: means are over the others"
    assert corruption_table(entries).notes == (told,)
    assert corruption_types_table(entries, 1).notes == ()  # where macer has no column


def test_logs_of_cifar100_c_are_known_by_their_labels(write_log, tmp_path):
    write_log([(0, 1, 1, "0.4"), (1, 10, 10, "0.9")], "c/severity_1/cohen/fog.tsv")
    write_log([(0, 1, 1, "0.4"), (1, 9, 9, "0.9")], "c/severity_1/cohen/saturate.tsv")
    notes = corruption_table(read_corruptions(tmp_path / "c")).notes
    assert notes[0] == "left out of the means, which are over the 15 types of cifar100-c: saturate"
    assert notes[1].startswith("14 of the 15 types of cifar100-c are missing (")


def test_an_incomplete_benchmark_is_told_in_text_page_and_json(
    capsys, write_log, write_store, tmp_path
):
    for kind in CORRUPTIONS["mnist-c"][:-2]:
        write_log(ROW, f"m/cat-rs/{kind}.tsv")
    note = (
        "2 of the 15 types of mnist-c are missing (zigzag, canny_edges): means are over the others"
    )
    main(["report", "--corruptions", str(tmp_path / "m"), "--html", str(tmp_path / "page.html")])
    assert f"note: {note}\n" in capsys.readouterr().out
    assert f"{note}</li>" in (tmp_path / "page.html").read_text()
    stores = [
        write_store([(0, 1, 1, 0.5)], inputs=1),
        write_store(ROW, run="c", inputs=2, dataset="cifar10-c", split="fog/1"),
    ]
    main(["report", *map(str, stores), "--corruptions", str(tmp_path / "m"), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [len(told[key]) for key in ("corruptions", "corruption_notes")] == [2, 2]
    assert told["corruption_notes"][0][0].startswith("14 of the 15 types of cifar10-c are missing")
    assert told["corruption_notes"][1] == [note]


def test_stores_of_two_benchmarks_do_not_lack_the_types_of_the_other(write_store):
    kinds = [("cifar10-c", f"{kind}/1") for kind in CORRUPTIONS["cifar10-c"]]
    kinds += [("mnist-c", kind) for kind in CORRUPTIONS["mnist-c"][1:]]
    stores = [
        write_store(
            ROW, run=name, name=split.replace("/", "-"), inputs=2, dataset=name, split=split
        )
        for name, split in kinds
    ]
    assert corruption_table(corrupted_stores([read_store(folder) for folder in stores])).notes == (
        "1 of the 15 types of mnist-c is missing (shot_noise): means are over the others",
    )
