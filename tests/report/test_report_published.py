"""The authors' released logs must print their published numbers to the digit."""

from pathlib import Path

import numpy as np
import pytest

from smoothcert.report import (
    average_certified_radius,
    certificate_table,
    certified_accuracy,
    read_log,
    read_results,
)
from tests.report.authors_logs import LOGS, needs_logs

pytestmark = needs_logs

# path | rows | abstentions | ACR | certified accuracy in % at r = 0, 0.25, 0.5, ... (ImageNet: 0, 0.5, 1, ...)
GOLDEN = """
data/cifar10/noise_0.25/salman/noise_0.25.tsv | 10000 | 335 | 0.5444 | 73.4 65.6 57.0 47.5
data/cifar10/noise_0.5/cohen/noise_0.5.tsv | 10000 | 1523 | 0.5251 | 65.7 54.9 42.8 32.5 22.0 14.1 8.3 3.9
data/cifar10/noise_0.5/cat-rs/noise_0.5.tsv | 10000 | 728 | 0.7571 | 62.3 56.8 50.5 44.6 38.5 32.7 27.1 20.6
data/cifar10/noise_1.0/macer/noise_1.0.tsv | 10000 | 1262 | 0.7441 | 41.4 38.5 35.2 32.3 29.3 26.4 23.4 20.2 17.4 14.5 12.1
data/cifar100/noise_0.25/cohen/noise_0.25.tsv | 10000 | 2707 | 0.2279 | 48.9 33.7 20.9 12.0
data/cifar100/noise_0.5/stab/noise_0.5.tsv | 10000 | 131 | 0.0777 | 8.6 7.2 5.9 4.6 3.7 2.6 1.9 1.2
data/fmnist/noise_0.25/salman/noist_0.25.tsv | 10000 | 56 | 0.7559 | 86.2 83.3 79.8 75.1
data/fmnist/noise_0.25/cat-rs/noise_0.25.tsv | 10000 | 69 | 0.7566 | 86.3 83.5 79.6 75.2
data/fmnist/noise_0.5/cohen/noise_0.5.tsv | 10000 | 348 | 1.0563 | 86.2 80.7 73.2 64.8 55.5 45.6 35.0 24.1
data/fmnist/noise_0.5/stab/noise_0.5.tsv | 10000 | 256 | 1.1180 | 85.9 81.6 75.8 68.8 60.2 50.5 39.4 27.6
data/fmnist/noise_0.5/salman/noise_0.5.tsv | 10000 | 175 | 1.2547 | 83.3 80.2 76.5 71.9 66.7 61.2 54.5 45.9
data/fmnist/noise_0.5/macer/noise_0.5.tsv | 10000 | 255 | 1.1833 | 83.3 80.1 75.9 70.4 64.2 56.7 47.7 36.0
data/fmnist/noise_0.5/consistency/noise_0.5.tsv | 10000 | 205 | 1.2118 | 84.9 81.1 76.4 71.2 65.2 57.8 49.3 39.2
data/fmnist/noise_0.5/smoothmix/noise_0.5.tsv | 10000 | 216 | 1.2369 | 84.4 80.7 76.3 71.2 65.6 58.9 52.4 44.2
data/fmnist/noise_0.5/cat-rs/noise_0.5.tsv | 10000 | 198 | 1.2741 | 82.5 79.6 76.2 72.4 67.8 62.5 56.7 49.0
data/fmnist/noise_1.0/smoothmix/noise_1.0.tsv | 10000 | 838 | 1.5338 | 76.4 72.6 68.3 63.3 58.4 53.7 48.6 43.4 38.4 33.3 28.3
data/fmnist/noise_1.0/cat-rs/noise_1.0.tsv | 10000 | 725 | 1.6068 | 73.8 71.1 68.0 64.9 61.1 57.3 52.9 48.0 43.2 37.4 31.7
data/mnist/noise_0.25/noise_0.25.tsv | 10000 | 9 | 0.9331 | 99.4 99.0 98.2 96.9
data/mnist/noise_0.5/noise_0.5.tsv | 10000 | 38 | 1.6999 | 98.6 98.0 97.0 95.4 92.8 88.7 82.5 71.1
data/mnist/noise_1.0/noise_1.0.tsv | 10000 | 409 | 1.8306 | 93.2 90.5 87.2 83.1 77.6 71.7 64.0 55.8 47.2 39.2 30.0
data/imagenet/noise_1.0.tsv | 500 | 94 | 1.0715 | 43.6 38.2 35.2 30.8 26.8 24.0 20.2 17.0
data/certify/mnist/smoothmix/smix_1.0_3_m0/tau_1.0/num_4/0/noise_0.25 | 10000 | 7 | 0.9306 | 99.5 98.9 98.2 96.4
data/certify/mnist/smoothmix/smix_1.0_4_m1/tau_1.0/num_4/0/noise_0.5 | 10000 | 25 | 1.6942 | 98.8 98.1 97.1 95.3 92.7 88.3 81.7 69.5
data/certify/mnist/smoothmix/smix_1.0_8_m1/tau_5.0/num_4/0/noise_1.0 | 10000 | 409 | 1.8230 | 93.3 90.9 87.5 83.0 77.5 70.6 62.7 53.4 44.9 37.1 29.3
data/certify/mnist/cohen/noise_1.00_2110 | 10000 | 267 | 1.6187 | 96.3 94.4 91.4 86.8 79.8 70.9 59.4 46.2 32.5 19.7 10.9
data/certify/mnist/salman/pgd_255.0_10_10/num_4/noise_0.25_3762 | 10000 | 3 | 0.9320 | 99.4 99.0 98.2 96.8
data/certify/mnist/macer_deferred30/num_16/lbd_6.0/gamma_8.0/beta_16.0/noise_1.00_1549 | 10000 | 590 | 1.5981 | 91.6 88.1 83.5 77.7 71.1 63.7 55.7 46.8 38.4 29.2 20.0
data/certify/mnist/consistency/cohen/num_2/lbd_5.0/eta_0.5/noise_0.50_2 | 10000 | 17 | 1.6569 | 99.2 98.6 97.6 95.9 93.0 87.8 78.5 60.5
data/certify/cifar10/consistency/salman_512.0_10_10/num_2/lbd_1.0/eta_0.5/cifar_resnet110/noise_1.00 | 10000 | 1184 | 0.8160 | 41.7 39.0 36.2 33.5 30.7 27.6 24.7 22.0 19.5 17.3 14.9
data/certify/cifar10/stab/lbd_2/cifar_resnet20/noise_0.5_1682 | 10000 | 1391 | 0.4992 | 60.2 50.1 40.5 31.0 22.1 14.9 8.2 3.7
data/certify/cifar10/salman/pgd_255.0_10_10/num_8/cifar_resnet20/noise_0.50_8916 | 10000 | 888 | 0.6924 | 63.0 56.5 48.9 41.8 34.9 28.1 21.3 14.6
data/certify/cifar10/smoothmix/noise_0.25 | 10000 | 320 | 0.5534 | 77.1 67.9 57.9 46.7
data/certify/cifar10/smoothmix/noise_0.5_adv | 10000 | 838 | 0.7356 | 63.5 57.2 50.5 43.4 36.7 30.6 24.7 19.1
"""  # noqa: E501
CASES = [[part.strip() for part in line.split("|")] for line in GOLDEN.strip().splitlines()]


@pytest.mark.parametrize(
    ("path", "rows", "abstentions", "acr", "accuracies"), CASES, ids=[case[0] for case in CASES]
)
def test_golden(path, rows, abstentions, acr, accuracies):
    c = read_log(Path(LOGS) / path)
    step = 0.5 if "imagenet" in path else 0.25
    table = certificate_table([c], [i * step for i in range(len(accuracies.split()))])
    assert (str(c.rows), str(int(c.abstained.sum()))) == (rows, abstentions)
    assert f"{average_certified_radius(c):.4f}" == acr
    assert " ".join(table.rows[0][5:]) == accuracies
    assert (
        certificate_table([c], table_radii(table), rounded=True).rows == table.rows
    )  # they are rounded already
    assert c.warnings == table.notes == ()


def table_radii(table):
    return [float(radius) for radius in table.radii]


def test_side_files_of_the_authors():
    """Their `*_acc` files hold the certified accuracy at 0, 0.005, ..., 4, computed by the authors' own code."""
    side = sorted(Path(LOGS).glob("data/**/noise_*_acc"))
    assert side
    for path in side:
        c = read_log(path.with_name(path.name.removesuffix("_acc")))
        radii, accuracy = np.loadtxt(path).T
        grid = np.arange(0, 4 + 0.005, 0.005)[: len(radii)]
        np.testing.assert_allclose(radii, grid, atol=1e-5)
        np.testing.assert_allclose(certified_accuracy(c, grid), accuracy, atol=6e-6)


def test_seven_methods_by_name():
    folder = Path(LOGS) / "data" / "fmnist" / "noise_0.5"
    results = read_results(*sorted(folder.glob("*/noise_0.5.tsv")))
    assert [c.name for c in results] == [
        "cat-rs",
        "cohen",
        "consistency",
        "macer",
        "salman",
        "smoothmix",
        "stab",
    ]
    assert {c.sigma for c in results} == {0.5}
    assert certificate_table(results).notes == ()
