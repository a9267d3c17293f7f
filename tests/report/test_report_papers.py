"""The released logs give the papers' printed tables, in every digit."""

from pathlib import Path

import pytest

from smoothcert.report import (
    abstention_table,
    certificate_table,
    group_envelope_table,
    is_training_log,
    read_corruptions,
    read_log,
    read_trainings,
)
from smoothcert.report.measures.across_seeds import seed_summary
from smoothcert.report.measures.corrupted import corruption_means
from smoothcert.report.read.methods import METHODS, method_of
from smoothcert.report.views.corruptions import corruption_table, corruption_types_table
from tests.report.authors_logs import LOGS, needs_logs
from tests.report.papers import paper_columns, paper_table

pytestmark = needs_logs
DATA = Path(LOGS) / "data"
MNIST = DATA / "certify" / "mnist"

# How the CAT-RS release calls the methods.
FOLDERS = {"gaussian": "cohen", "stability": "stab", "smoothadv": "salman", "catrs": "cat-rs"}


def printed(path, columns):
    """The row of our table for a log: ACR, then the certified accuracies at 0, 0.25, ... ."""
    (row,) = certificate_table([read_log(path)], [0.25 * i for i in range(columns)]).rows
    return [row[3], *row[5:]]


@pytest.mark.parametrize(("number", "folder"), [(4, "fmnist"), (5, "cifar100")])
def test_catrs_tables_of_certified_accuracy(number, folder):
    rows = paper_table("catrs", number)
    assert len(rows) == 7 * (3 if folder == "fmnist" else 2)
    for sigma, method, *cells in rows:
        place = DATA / folder / f"noise_{float(sigma)}" / FOLDERS.get(method, method)
        (log,) = place.glob("noi*.tsv")  # one is called noist_0.25.tsv
        assert printed(log, len(cells) - 1) == cells, (sigma, method)
        assert method_of(read_log(log)) == method


@pytest.fixture(scope="module")
def cifar10c():
    with pytest.warns(UserWarning, match="left out: 105 logs"):  # all severities in one
        return read_corruptions(DATA / "cifar10c")


def name(model):
    folders = {folder: method for method, folder in FOLDERS.items()}
    return folders.get(model.replace("_", "-"), model)


def test_catrs_table_of_cifar10c(cifar10c):
    table = corruption_table(cifar10c)
    assert table.notes == ()
    ours = {name(model): cells for model, *cells in table.rows}
    assert table.head[6] == "mACR"
    assert {method: cells for method, *cells in paper_table("catrs", 13)} == ours


@pytest.mark.parametrize("number", range(14, 24))
def test_catrs_tables_of_each_corruption(cifar10c, number):
    severity, accuracy = (number - 12) // 2, number % 2 == 1
    table = corruption_types_table(cifar10c, severity, accuracy=accuracy)
    models = [name(model) for model in table.head[1:]]
    ours = {
        (kind.removesuffix(" %"), m): cell
        for kind, *row in table.rows
        for m, cell in zip(models, row, strict=True)
    }
    methods = paper_columns("catrs", number)[1:]
    theirs = {
        (kind, m): cell
        for kind, *row in paper_table("catrs", number)
        for m, cell in zip(methods, row, strict=True)
    }
    assert len(theirs) == 16 * 7
    assert ours == theirs


def test_catrs_table_of_mnistc():
    """Logs are released for CAT-RS alone: the last column."""
    entries = read_corruptions(DATA / "mnistc")
    assert "identity" in {entry.corruption for entry in entries}  # read, but in no mean
    for number, accuracy in ((24, False), (25, True)):
        rows = corruption_types_table(entries, accuracy=accuracy).rows
        ours = {kind.removesuffix(" %"): cell for kind, cell in rows}
        assert ours == {kind: row[-1] for kind, *row in paper_table("catrs", number)}
    (means,) = corruption_means(entries).values()
    assert f"{means[-1].acr:.3f} {100 * means[-1].accuracy:.1f}" == "0.693 85.7"


STEPS = {("eta1", "0.25"): 3, ("eta5", "0.25"): 2, ("eta1", "0.50"): 4, ("eta5", "0.50"): 4}


def smoothmix_log(method, sigma, seed="0"):
    """The paper says 2 steps at sigma 0.25; for eta 1 the row is that of 3 steps, as its columns show."""
    eta, _, one_step = method.partition("-")
    steps = STEPS.get((eta, sigma), 8)
    place = (
        MNIST
        / "smoothmix"
        / f"smix_1.0_{steps}_m{int(bool(one_step))}"
        / f"tau_{eta[3:]}.0"
        / "num_4"
        / seed
    )
    return place / f"noise_{float(sigma)}"


def test_smoothmix_rows_of_table_2():
    rows = [row for row in paper_table("smoothmix", 2) if row[1].startswith("eta")]
    assert len(rows) == 12
    for sigma, method, *cells in rows:
        assert printed(smoothmix_log(method, sigma), len(cells) - 1) == cells, (sigma, method)


# Baselines of table 2: the log whose columns the row prints. None: no released log prints them, and the ACR is
# another run's too. Of the two with "another seed" the columns are this log's, but the printed ACR is not.
BASELINES = {
    **dict.fromkeys(
        [
            ("gaussian", "0.25"),
            ("gaussian", "0.50"),
            ("stability", "0.25"),
            ("stability", "0.50"),
            ("smoothadv", "0.50"),
            ("macer", "0.25"),
            ("macer", "0.50"),
        ]
    ),
    ("gaussian", "1.00"): ("cohen/noise_1.00_2110", "another seed"),
    ("stability", "1.00"): ("stab/lbd_2/noise_1.0_1944", "another seed"),
    ("smoothadv", "0.25"): ("salman/pgd_255.0_10_10/num_4/noise_0.25_3762", ""),
    ("smoothadv", "1.00"): ("salman/pgd_255.0_10_10/num_4/noise_1.00_1099", ""),
    ("macer", "1.00"): ("macer_deferred30/num_16/lbd_6.0/gamma_8.0/beta_16.0/noise_1.00_1549", ""),
    ("consistency", "0.25"): ("consistency/cohen/num_2/lbd_10.0/eta_0.5/noise_0.25_1", ""),
    ("consistency", "0.50"): ("consistency/cohen/num_2/lbd_5.0/eta_0.5/noise_0.50_2", ""),
    ("consistency", "1.00"): ("consistency/cohen/num_2/lbd_5.0/eta_0.5/noise_1.00_4", ""),
}
PATTERNS = {
    "gaussian": "cohen/noise_{}*",
    "stability": "stab/lbd_2/noise_{}*",
    "smoothadv": "salman/*/num_4/noise_{}*",
    "macer": "macer*/*/*/*/*/noise_{}*",
}


def test_baseline_rows_of_table_2():
    rows = {(row[1], row[0]): row[2:] for row in paper_table("smoothmix", 2) if row[1] in METHODS}
    assert rows.keys() == BASELINES.keys()
    for (method, sigma), cells in rows.items():
        if BASELINES[method, sigma] is None:
            logs = list(MNIST.glob(PATTERNS[method].format(float(sigma))))
            assert len(logs) == 5
            assert cells[1:] not in [printed(log, len(cells) - 1)[1:] for log in logs], (
                method,
                sigma,
            )
            continue
        path, seed = BASELINES[method, sigma]
        ours = printed(MNIST / path, len(cells) - 1)
        assert ours[1:] == cells[1:], (method, sigma)
        assert (ours[0] == cells[0]) is (seed == ""), (method, sigma)


def test_cohens_rows_of_smoothadv_tables_2_and_4():
    """The best of Cohen et al.'s models by radius, and how often it abstains. The release has no model of sigma 0.12,
    which is the best at none of these radii."""
    runs = [read_log(path) for path in sorted((DATA / "cifar10").glob("noise_*/cohen/*.tsv"))]
    radii = [0.25 * i for i in range(1, 10)]
    (best,) = group_envelope_table(runs, radii).rows
    (abstained,) = abstention_table(runs, radii).rows
    assert [f"{float(cell.split()[0]):.0f}" for cell in best[1:]] == [
        "61",
        "43",
        "32",
        "22",
        "17",
        "13",
        "10",
        "7",
        "4",
    ]
    assert list(abstained[1:]) == [
        "8.0",
        "15.2",
        "15.2",
        "29.5",
        "29.5",
        "29.5",
        "29.5",
        "29.5",
        "29.5",
    ]


def test_training_logs():
    """What the CAT-RS release tells of its training on CIFAR-10 after 1, 5, 10 and 20 epochs."""
    (training,) = read_trainings(DATA / "cifar10" / "noise_0.5" / "cat-rs" / "log.txt")
    assert (training.key, len(training.epochs)) == ("catrs", 150)
    shown = [training.epochs[finished - 1] for finished in (1, 5, 10, 20)]
    assert [epoch["loss"] for epoch in shown] == [0.658, 0.507, 0.461, 0.430]
    assert [epoch["noisy_test_accuracy"] for epoch in shown] == pytest.approx(
        [0.284, 0.430, 0.450, 0.511]
    )
    assert (
        sum(map(is_training_log, DATA.glob("**/log.txt")))
        == len(list(DATA.glob("**/log.txt")))
        > 30
    )


SETUPS = {
    "eta=": "eta/smix_1.0_8_m0/tau_{:.1f}/num_4/*/noise_1.0",
    "alpha=": "alphat/smix_{:.1f}_*_m0/tau_1.0/num_4/*/noise_1.0",
    "eps=": "restriction/smix_1.0_8_m0_max{:.1f}/tau_1.0/num_4/*/noise_1.0",
    "m=": "m/smix_1.0_8_m0/tau_1.0/num_{:.0f}/*/noise_1.0",
}


@pytest.mark.parametrize(("number", "rows"), [(8, 5), (9, 4), (10, 5), (11, 4)])
def test_smoothmix_ablations(number, rows):
    """Tables 8 to 11, without the reprinted row "Gaussian", whose log is not released."""
    table = paper_table("smoothmix", number)
    assert len(table) == rows
    for setup, *cells in table:
        key, _, value = setup.partition("=")
        pattern = SETUPS[f"{key}="].format(float(value.split(",")[0])).replace("_maxinf", "")
        (log,) = (DATA / "certify" / "ablation").glob(pattern)
        assert printed(log, len(cells) - 1) == cells, setup


FIVE = {
    "gaussian": "cohen/noise_{:.2f}_*",
    "stability": "stab/lbd_2/noise_{}*_*",
    "smoothadv": "salman/pgd_255.0_10_10/num_4/noise_{:.2f}_*",
    "macer": "macer_deferred30/num_16/lbd_*/gamma_8.0/beta_16.0/noise_{:.2f}_*",
    "consistency": "consistency/cohen/num_2/lbd_{lam}/eta_0.5/noise_{:.2f}_[1-5]",
}


def test_means_over_five_seeds():
    """Table 5. Its Consistency rows have the population standard deviation, and .9279 at sigma .25 is not the mean of
    the five released logs (.9282); all other rows are means and sample standard deviations of these logs."""
    for method, *cells in paper_table("smoothmix", 5):
        for sigma, mean, std in zip(("0.25", "0.50", "1.00"), cells[::2], cells[1::2], strict=True):
            if method.startswith("eta"):
                logs = [smoothmix_log(method, sigma, str(seed)) for seed in range(21, 26)]
            else:
                lam = "10.0" if sigma == "0.25" else "5.0"
                logs = sorted(MNIST.glob(FIVE[method].format(float(sigma), lam=lam)))
            logs = [log for log in logs if not log.name.endswith("_acc")]
            assert len(logs) == 5, (method, sigma)
            summary = seed_summary([read_log(log) for log in logs])
            ours = [f"{summary.acr.mean:.4f}", f"{summary.acr.std:.4f}"]
            if (method, sigma) == ("consistency", "0.25"):
                assert ours[0] == "0.9282"
                continue
            if method == "consistency":
                ours[1] = f"{summary.acr.std * (4 / 5) ** 0.5:.4f}"
            assert ours == [mean, std], (method, sigma)
