"""What the page shows: complete in itself, and every section from the same results."""

import re
from dataclasses import replace

import numpy as np
import pytest

from smoothcert.report import read_store
from tests.report.page import Page, report

DATA = {"sigma": 0.5, "n0": 100, "n": 1000, "alpha": 0.001, "noise": "exact"}


def test_page_has_everything_and_loads_nothing(make, tmp_path, write_store):
    store = read_store(write_store([(0, 1, 1, 0.5), (1, 2, -1, 0.0)]))
    log = make([0.5, 0.8], name="log", sigma=0.5, label=np.array([1, 2]), predict=np.array([1, 2]))
    losses = [{"epoch": e, "loss": 1 / (e + 1)} for e in range(5)]
    text = report(tmp_path, [store, log], title="A & B", training={"log": losses})
    page = Page(text)
    assert page.loads == []
    assert "@import" not in text
    assert not [place for place in re.findall(r"url\((.)", text) if place != "#"]
    assert len(page.ids) == len(set(page.ids))
    for part in (
        "A & B",
        "run/test",
        "0.650",
        "2 of 4",
        "How to read this.",
        "Before you compare",
        "not recorded",
    ):
        assert part in page.text
    assert "run/test: partial, 2 of 4 inputs" in page.text
    assert any('"environment"' in part for part in page.text)
    for chart in (
        "with a certified radius of at least r.",
        "with a lower bound of p_A of at least p.",
    ):
        (told,) = [part for part in re.findall('aria-label="([^"]*)"', text) if chart in part]
        assert "run/test (partial, 2 of 4 inputs): " in told
        assert "log: " in told
    assert "log: 1 to 0.2" in text  # the loss
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


@pytest.fixture
def pictures():
    class Pictures:
        class_names = tuple(f"class {k}" for k in range(10))

        def image(self, i):
            return np.full((1, 28, 28), i % 256, np.uint8)

    return Pictures()


def test_every_section_is_there_and_linked(make, tmp_path, pictures):
    rng = np.random.default_rng(0)

    def run(eta, seed):
        radius = np.minimum(rng.exponential(0.8, 60), 1.2316)
        config = {"dataset": "mnist", "model": "lenet", "sigma": 0.5, "seed": seed}
        method = {"name": "smoothmix", "eta": eta}
        return make(
            radius, rng.random(60) < 0.8, name=f"mix-{eta}-{seed}", label=np.arange(60) % 10, **DATA,
            predict=np.arange(60) % 10, config=config | {"method": method}, manifest={"identity": DATA},
        )  # fmt: skip

    runs = [
        replace(c, correct=c.predict == c.label) for c in (run(1.0, 0), run(5.0, 0), run(5.0, 1))
    ]
    losses = [{"epoch": e, "loss": 1 / (e + 1), "noisy_test_accuracy": 0.9} for e in range(5)]
    text = report(
        tmp_path, runs, training={runs[0].name: losses}, images={c.name: pictures for c in runs}
    )
    page = Page(text)
    links = re.findall(r'<a href="#([^"]+)">', text)
    views = [
        "accuracy",
        "confidence",
        "differences",
        "envelope",
        "seeds",
        "trade-offs",
        "radii",
        "classes",
        "losses",
    ]
    assert links == [*views, "gallery", "provenance"]
    assert set(links) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert page.loads == []
    compared = "Differences to mix-1.0-0, with 95 % intervals of the paired bootstrap"
    for part in ("Best run for each radius", compared, "Over seeds",
                 "Accuracy against robustness", "smoothmix by eta", "1.6932 ± 0.0007", "saturation 1.232",
                 "accuracy on noisy test images", "class 3"):  # fmt: skip
        assert part in page.text, part
    assert page.data["colours"] == [6, 6, 6]
    assert page.data["gallery"]["names"][3] == "class 3"
    assert len(page.data["gallery"]["images"]) <= 60


def test_intervals_and_the_reference_are_those_asked_for(make, tmp_path):
    runs = [
        make([0.3] * 4, [1, 1, 1, 0], name="a", sigma=0.5),
        make([0.5] * 4, name="b", sigma=0.5),
    ]
    text = report(tmp_path, runs, radii=[0.0], intervals=True, reference="b")
    assert '<td>75.0 <span class="around">[19.4, 99.4]</span></td>' in text
    assert "Differences to b" in text
    assert "Clopper-Pearson" in text
    plain = report(tmp_path, runs, radii=[0.0])
    assert "<td>75.0</td>" in plain
    assert "Differences to a" in plain
    assert "Clopper-Pearson" not in plain


def test_the_page_begins_with_accuracies_and_confidence_of_one_sigma(make, tmp_path):
    """Of four inputs three and four are certified at 0, and p_A is 0.99 at 2.33 sigma."""
    runs = [
        make([0.3] * 3 + [9], [1, 1, 1, 0], name="a", sigma=0.1),
        make([0.2] * 4, name="b", sigma=0.1),
    ]
    lead = re.search(
        r'<p class="lead">(.*?)</p>', report(tmp_path, runs, radii=[0.0, 0.25]), re.DOTALL
    )[1]
    shown = " ".join(re.sub(r"<[^>]+>", "", lead).replace("&nbsp;", " ").split())
    assert shown == (
        "2 runs, 4 inputs each, noise level σ = 0.1. Highest certified accuracy: 100.0 % at r = 0.00 (b), 75.0 % at "
        "r = 0.25 (a). 75.0 % of the inputs are answered correctly with a confidence of at least 0.99 by the most "
        "confident run (a)."
    )
    other = report(tmp_path, [runs[0], replace(runs[1], sigma=0.2)])
    assert "most confident" not in other
    assert "Compare runs of one σ" in other


def test_gallery_that_cannot_be_made_is_explained(make, tmp_path, pictures):
    c = make([0.5], idx=np.array([3]))
    pictures.labels = np.array([0, 0, 0, 9])
    page = Page(report(tmp_path, [c], images={"run": pictures}))
    assert any("other labels than its certificates" in part for part in page.text)
    assert page.data["gallery"] is None


def test_the_main_table_has_the_budget_of_each_run(make, tmp_path):
    """n and alpha behind the inputs, and bold still where the best values are."""
    early = {"identity": {"procedure": "tolerance"}}
    runs = [
        make([0.5, 0.5], name="a", n=2000, alpha=1e-5),
        make([0.9, 0.9], name="b", n=2000, alpha=1e-5, manifest=early),
        make([0.1, 0.1], name="log"),
    ]
    text = report(tmp_path, runs, radii=[0.25])
    table = text[text.index('aria-label="Results"') : text.index("</table>")]
    assert re.findall(r"<th scope=.col.>([^<]*)</th>", table) == ["run", "σ", "inputs", "n", "α", "ACR", "abstain %",
                                                                  "0.25"]  # fmt: skip
    cells = [
        re.findall(r"<td(?: class=best)?>([^<]*)</td>", row) for row in table.split("<tr>")[2:]
    ]
    assert [row[1:5] for row in cells] == [
        ["2", "2000", "1e-05", "0.500"], ["2", "≤ 2000", "1e-05", "0.900"], ["2", "-", "-", "0.100"]
    ]  # fmt: skip
    assert re.findall(r"<td class=best>([^<]*)</td>", table) == ["100.0", "0.900", "100.0"]
    unknown = report(tmp_path, runs[2:])
    assert "α" not in unknown[unknown.index("<table") : unknown.index("</table>")]


def test_single_run_without_notes_or_training(make, tmp_path):
    page = Page(report(tmp_path, [make([0.5, 0.7])]))
    assert "Before you compare" not in page.text
    assert "Training" not in page.text
    assert len(page.data["readings"]["accuracy"]["values"]) == 1
    assert not any("lower bound of p_A" in part for part in page.text)


def test_readings_agree_with_the_table(make, tmp_path):
    radius = np.zeros(400)
    radius[:293] = 0.35
    page = Page(report(tmp_path, [make(radius)], radii=[0.35]))
    reading = page.data["readings"]["accuracy"]
    place = reading["x"].index(0.35)
    assert reading["values"][0][place] == 73.2  # 73.25 in binary; the tie at 0.35 counts
    assert reading["values"][0][place + 1 :] == []
    assert reading["shown"][place] == "0.35"
    assert "73.2" in page.text


@pytest.mark.parametrize("top", [0.0, 1e-4, 3.81, 30.0, 4000.0])
def test_readings_cover_any_axis_with_few_points(make, tmp_path, top):
    reading = Page(report(tmp_path, [make([top])])).data["readings"]["accuracy"]
    assert 1 <= len(reading["x"]) <= 401
    assert reading["x"][-1] <= 1.02 * top + 1
    assert 0 <= reading["start"] < len(reading["x"])


def test_rounded_and_chosen_radii(make, tmp_path):
    page = Page(report(tmp_path, [make([1.9057])], radii=[1.91], rounded=True))
    assert "1.91" in page.text
    assert "100.0" in page.text
    assert any("3 significant digits" in part for part in page.text)
