"""Trainings of run folders and of released logs, read and drawn in one picture."""

import json
import re

import pytest
from smoothcert.report.charts.chart import charts_svg
from smoothcert.report.charts.svg import ticks
from smoothcert.report.charts.training import training_svg

from smoothcert.errors import ConfigError, StoreError
from smoothcert.report import Training, is_training_log, read_training_log, read_trainings
from smoothcert.report.charts.losses import loss_charts

HEADER = "epoch\ttime\tlr\ttrain loss\ttrain acc\ttestloss\ttest acc\n"
LINES = "0\t3.54e+02\t0.1\t0.658\t15.0\t2.22\t28.4\n1\t356\t0.01\t0.59\t19.7\t2.1\t34.5\n"


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "noise_0.5" / "cat-rs" / "log.txt"
    path.parent.mkdir(parents=True)
    path.write_text(HEADER + LINES)
    return path


@pytest.fixture
def unfinished(tmp_path):
    """A run that was stopped in its third epoch, with a line that was being written."""
    run = tmp_path / "runs" / "mine"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("method: {name: smoothmix}\n")
    epochs = [
        {"epoch": i, "lr": 0.1, "loss": 2.0 - i, "noisy_test_accuracy": 0.5} for i in range(2)
    ]
    (run / "metrics.jsonl").write_text(
        "".join(json.dumps(e) + "\n" for e in epochs) + '{"epoch": 2, "lo'
    )
    return run


def test_a_released_log(log):
    assert is_training_log(log)
    assert read_training_log(log) == [
        {"epoch": 0, "lr": 0.1, "loss": 0.658, "noisy_test_accuracy": pytest.approx(0.284)},
        {"epoch": 1, "lr": 0.01, "loss": 0.59, "noisy_test_accuracy": pytest.approx(0.345)},
    ]
    log.write_text(HEADER + LINES + "2\t35")  # still being written
    with pytest.warns(UserWarning, match=r"log\.txt: unfinished last line left out"):
        assert len(read_training_log(log)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column epoch, found"),
        ("epoch\tloss\n", "column train loss, found epoch, loss"),
        (HEADER + LINES + "2\tx\n", "line 4: expected a number in each of 7 columns"),
        (HEADER + "0\t1\t0.1\tmany\t1\t1\t1\n", "line 2: expected a number"),
    ],
)
def test_a_damaged_log_is_refused(log, text, message):
    log.write_text(text)
    with pytest.raises(StoreError, match=message):
        read_training_log(log)


def test_runs_and_logs_together(log, unfinished, write_log, tmp_path):
    certificates = write_log([(0, 1, 1, "0.5")])
    assert not is_training_log(certificates)
    assert not is_training_log(tmp_path)
    found = read_trainings(log, tmp_path / "runs", certificates, unfinished)
    assert [(t.name, t.key, len(t.epochs)) for t in found] == [
        ("noise_0.5/cat-rs", "catrs", 2),
        ("runs/mine", "smoothmix", 2),
    ]
    assert read_trainings(certificates) == []
    with pytest.raises(StoreError, match="no such file or folder"):
        read_trainings(tmp_path / "nothing")


def test_both_measures_over_finished_epochs_with_the_drops_of_the_rate(log, unfinished):
    loss, accuracy = loss_charts(read_trainings(log, unfinished))
    assert [(line.x.tolist(), line.y.tolist()) for line in loss.lines] == [
        ([1, 2], [0.658, 0.59]),
        ([1, 2], [2.0, 1.0]),
    ]
    assert [line.y[-1] for line in accuracy.lines] == pytest.approx([0.345, 0.5])
    assert [(mark.x, mark.text) for mark in loss.marks] == [(1.0, "lr 0.01")]
    svg = charts_svg([loss, accuracy])
    assert svg.count(">lr 0.01</text>") == 2
    assert svg.count(">runs/mine</text>") == 1  # one legend for both
    first = loss_charts(read_trainings(log), epochs=1)[0]
    assert first.lines[0].x.tolist() == [1]


@pytest.mark.parametrize(
    ("method", "part"),
    [
        ("stability", "cross_entropy"),
        ("macer", "cross_entropy"),
        ("consistency", "cross_entropy"),
        ("catrs", "low"),
    ],
)
def test_beside_a_released_log_a_run_shows_the_part_that_the_log_has(log, tmp_path, method, part):
    """Released logs call the loss without its regularisers the train loss."""
    run = tmp_path / "ours"
    run.mkdir()
    (run / "config.yaml").write_text(f"method: {{name: {method}}}\n")
    (run / "metrics.jsonl").write_text(f'{{"epoch": 0, "lr": 0.1, "loss": 0.9, "{part}": 0.6}}\n')
    loss = loss_charts(read_trainings(log, run))[0]
    assert [line.y.tolist() for line in loss.lines] == [[0.658, 0.59], [0.6]]
    assert loss.title == "Training loss without regularisers"
    (alone,) = loss_charts(read_trainings(run))
    assert (alone.lines[0].y.tolist(), alone.title) == ([0.9], "Training loss")


def test_a_log_of_smoothmix_has_its_whole_loss(log, tmp_path):
    run = tmp_path / "ours"
    run.mkdir()
    (run / "config.yaml").write_text("method: {name: smoothmix}\n")
    (run / "metrics.jsonl").write_text(
        '{"epoch": 0, "lr": 0.1, "loss": 0.9, "cross_entropy": 0.6, "mix": 0.3}\n'
    )
    assert loss_charts(read_trainings(log, run))[0].lines[1].y.tolist() == [0.9]


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 20, 25, 90, 150])
def test_ticks_are_at_whole_epochs(epochs):
    training = Training("a", "a", [{"epoch": e, "loss": 1.0} for e in range(epochs)])
    frame = loss_charts([training])[0].frame
    found = ticks(frame.x[1], frame.ticks[0])
    assert len(found) > 1
    assert all(tick == int(tick) for tick in found)


@pytest.mark.parametrize("measure", ["loss", "noisy_test_accuracy"])
def test_the_page_counts_epochs_from_1_with_ticks_at_whole_ones(measure):
    svg = training_svg({"a": [{"epoch": e, measure: 0.95} for e in range(3)]}, measure, {})
    left, right = (
        float(re.search(f'data-{side}="([0-9.]+)"', svg)[1]) for side in ("left", "right")
    )
    (line,) = re.findall('<polyline[^>]* points="([^"]+)"', svg)
    places = [float(point.split(",")[0]) for point in line.split()]
    assert places == pytest.approx(
        [left + (right - left) * epochs / 3 for epochs in (1, 2, 3)], abs=0.1
    )
    below = svg.split('text-anchor="middle">')[1].split("</g>")[0]
    assert re.findall(">([^<\\n]+)</text>", below) == ["0", "1", "2", "3", "epochs"]


def test_trainings_on_different_data_sets_are_told(unfinished, recwarn):
    other = unfinished.parent / "other"
    other.mkdir()
    (other / "metrics.jsonl").write_text((unfinished / "metrics.jsonl").read_text())
    for data, expected in (("mnist", []), ("cifar10", ["mnist (mine), cifar10 (other)"])):
        (unfinished / "config.yaml").write_text("method: {name: smoothmix}\ndataset: mnist\n")
        (other / "config.yaml").write_text(f"dataset: {data}\n")
        read_trainings(unfinished, other)
        told = [str(warning.message) for warning in recwarn]
        assert [
            text.partition("do not compare: ")[2] for text in told if "data sets" in text
        ] == expected


def test_a_rate_that_is_printed_too_low_for_one_epoch_is_one_drop(log):
    rates = [
        "0.1",
        "0.1",
        "0.001",
        "0.01",
        "0.01",
        "0.0001",
        "0.001",
        "0.001",
    ]  # as PyTorch's get_lr() gives them
    log.write_text(
        HEADER + "".join(f"{e}\t3\t{rate}\t1\t1\t1\t1\n" for e, rate in enumerate(rates))
    )
    assert [e["lr"] for e in read_training_log(log)] == [
        0.1,
        0.1,
        0.01,
        0.01,
        0.01,
        0.001,
        0.001,
        0.001,
    ]
    assert [(mark.x, mark.text) for mark in loss_charts(read_trainings(log))[0].marks] == [
        (2, "lr 0.01"),
        (5, "lr 0.001"),
    ]


def test_rates_that_differ_and_marks_that_are_close_have_no_word():
    def training(name, drop, rate):
        return Training(
            name,
            name,
            [{"epoch": e, "lr": 0.1 if e < drop else rate, "loss": 1.0} for e in range(100)],
        )

    (chart,) = loss_charts(
        [
            training("a", 50, 0.01),
            training("b", 50, 0.02),
            training("c", 80, 0.01),
            training("d", 81, 0.01),
        ]
    )
    assert [(mark.x, mark.text) for mark in chart.marks] == [(50, ""), (80, "lr 0.01"), (81, "")]
    assert "b: learning rate 0.02 from here" in chart.marks[0].about


def test_nothing_to_draw(log):
    with pytest.raises(ConfigError, match="needs a training of one epoch or more, found none"):
        loss_charts([Training("a", "a", [])])
    with pytest.raises(ConfigError, match="at least 1, found 0"):
        loss_charts(read_trainings(log), epochs=0)


@pytest.mark.parametrize("loss", [1e308, 10**400, float("inf"), float("nan"), True, "1"])
def test_what_cannot_be_drawn_is_no_epoch(loss):
    training = Training(
        "a",
        "a",
        [{"epoch": 0, "loss": 1.0}, {"epoch": 1, "loss": loss}, {"epoch": 2, "loss": -2.0}],
    )
    (chart,) = loss_charts([training])
    assert chart.lines[0].y.tolist() == [1.0, -2.0]
    assert "inf" not in charts_svg([chart])
