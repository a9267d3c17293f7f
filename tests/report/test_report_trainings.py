"""Trainings of run folders and of released logs, read and drawn in one picture."""

import json

import pytest

from smoothcert.errors import ConfigError, StoreError
from smoothcert.report import Training, is_training_log, read_training_log, read_trainings
from smoothcert.report.plot import run_styles
from smoothcert.report.views import VIEWS
from smoothcert.report.views.losses import loss_figure
from tests.report.drawn import lines, words
from tests.report.page import a_report

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
    figure = loss_figure(read_trainings(log, unfinished))
    assert [(line.x.tolist(), line.y.tolist()) for line in lines(figure)] == [
        ([1, 2], [0.658, 0.59]),
        ([1, 2], [2.0, 1.0]),
    ]
    assert [line.y[-1] for line in lines(figure, 1)] == pytest.approx([0.345, 0.5])
    assert marks(figure) == marks(figure, 1) == [(1.0, "lr 0.01")]
    assert words(figure).count("runs/mine") == 1  # one legend for both
    assert lines(loss_figure(read_trainings(log), epochs=1))[0].x.tolist() == [1]


def marks(figure, axes=0):
    """Where the rate drops, with the words there."""
    return [(text.xy[0], text.get_text()) for text in figure.axes[axes].texts]


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
    figure = loss_figure(read_trainings(log, run))
    assert [line.y.tolist() for line in lines(figure)] == [[0.658, 0.59], [0.6]]
    assert figure.axes[0].get_ylabel() == "training loss without regularisers"
    alone = loss_figure(read_trainings(run))
    assert lines(alone)[0].y.tolist() == [0.9]
    assert [axes.get_ylabel() for axes in alone.axes] == ["training loss"]


def test_a_log_of_smoothmix_has_its_whole_loss(log, tmp_path):
    run = tmp_path / "ours"
    run.mkdir()
    (run / "config.yaml").write_text("method: {name: smoothmix}\n")
    (run / "metrics.jsonl").write_text(
        '{"epoch": 0, "lr": 0.1, "loss": 0.9, "cross_entropy": 0.6, "mix": 0.3}\n'
    )
    assert lines(loss_figure(read_trainings(log, run)))[1].y.tolist() == [0.9]


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 20, 25, 90, 150])
def test_ticks_are_at_whole_epochs(epochs):
    training = Training("a", "a", [{"epoch": e, "loss": 1.0} for e in range(epochs)])
    figure = loss_figure([training])
    figure.draw_without_rendering()
    found = figure.axes[0].get_xticks()
    assert len(found) > 1
    assert all(tick == int(tick) for tick in found)


def test_the_page_draws_trainings_as_its_runs(make):
    """Of a repeated epoch the last counts; one epoch is no line."""
    runs = [make([0.5], name=name) for name in ("gaussian", "macer")]
    epochs = [{"epoch": 0, "loss": 2.0}, {"epoch": 1, "loss": 9.0}, {"epoch": 1, "loss": 1.0}]
    more = [*epochs, {"epoch": 2, "loss": float("nan")}, {"epoch": 3}]
    one = [{"epoch": 0, "loss": 1.0}]
    (line,) = lines(on_page(runs, macer=more, gaussian=one))
    assert (line.run, line.colour) == (1, run_styles(runs)[1].colour)
    assert (line.x.tolist(), line.y.tolist()) == ([1, 2], [2, 1])
    with pytest.raises(ConfigError, match="found none"):
        on_page(runs, gaussian=one)


def on_page(runs, **training):
    return VIEWS["losses"].draw(a_report(runs, training=training, on_page=True))


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
    assert marks(loss_figure(read_trainings(log))) == [
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

    figure = loss_figure(
        [
            training("a", 50, 0.01),
            training("b", 50, 0.02),
            training("c", 80, 0.01),
            training("d", 81, 0.01),
        ]
    )
    assert marks(figure) == [(50, ""), (80, "lr 0.01"), (81, "")]
    assert "b: learning rate 0.02 from here" in figure.get_label()


def test_nothing_to_draw(log):
    with pytest.raises(ConfigError, match="needs a training of one epoch or more, found none"):
        loss_figure([Training("a", "a", [])])
    with pytest.raises(ConfigError, match="at least 1, found 0"):
        loss_figure(read_trainings(log), epochs=0)


@pytest.mark.parametrize("loss", [1e308, 10**400, float("inf"), float("nan"), True, "1"])
def test_what_cannot_be_drawn_is_no_epoch(loss):
    training = Training(
        "a",
        "a",
        [{"epoch": 0, "loss": 1.0}, {"epoch": 1, "loss": loss}, {"epoch": 2, "loss": -2.0}],
    )
    assert lines(loss_figure([training]))[0].y.tolist() == [1.0, -2.0]
