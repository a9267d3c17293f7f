"""Which runs a table, a data set or a recipe needs, and where they lie."""

import pytest

from smoothcert.cli import frame
from smoothcert.errors import ConfigError
from smoothcert.evaluation.plan import plan, targets
from smoothcert.evaluation.reproduce import Certification, Given
from smoothcert.recipes import load_recipe, recipe_names


def planned(what, out, rows=(), seeds=(0,), **more):
    return plan(targets(what, rows), out, seeds, **more)


def test_rows_and_seeds_are_planned(tmp_path):
    jobs = planned("mnist", tmp_path, ["gaussian-*", "smoothmix-0.50"], [0, 3])
    assert [(job.recipe, job.seed) for job in jobs][:3] == [
        ("mnist/gaussian-0.25", 0),
        ("mnist/gaussian-0.25", 3),
        ("mnist/gaussian-0.50", 0),
    ]
    assert len(jobs) == 8
    folder = tmp_path / "mnist" / "gaussian-0.25" / "seed0"
    assert jobs[0].train == ["train", jobs[0].recipe, "--seed", "0", "--out", str(folder)]
    assert len(planned("mnist", tmp_path)) == 33 + 3  # the papers' table, and settings of ours
    (one,) = planned("mnist/gaussian-0.25", tmp_path)
    assert one.folder == folder


@pytest.mark.parametrize(
    ("what", "rows", "message"),
    [
        ("mnst", (), "did you mean mnist"),
        ("mnist", ["gausian-0.50"], "did you mean gaussian-0.50"),
        ("mnist", ["denoiser-*"], "denoisers have no certificates"),
        ("table-8", (), "unknown published table 'table-8': did you mean .*supplement/table-8"),
        ("smoothmix-supplement/table-99", (), "unknown published table"),
        ("smoothmix-supplement/table-8", ["eta = 17"], "did you mean eta = 1 or eta = 16"),
        ("smoothadv/table-3", ["Wong*"], "quotes this from elsewhere"),
        ("catrs-supplement/figure-7", (), "its pictures are those of CIFAR-10-C"),
    ],
)
def test_unknown_rows_are_refused(what, rows, message):
    with pytest.raises(ConfigError, match=message):
        targets(what, rows)


def test_what_cannot_be_made_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="of several seeds the luckiest would win"):
        planned("smoothadv/table-2", tmp_path, seeds=[0, 1])
    with pytest.raises(ConfigError, match="is about mnist-c: it cannot be made on other data"):
        planned("catrs-supplement/table-24", tmp_path, data="mnist-mini")


def test_denoisers_and_recipes_that_need_more_than_the_data_are_run_only_if_named(tmp_path):
    assert "mnist/denoiser-0.50" in recipe_names()
    names = {job.recipe for job in [*planned("mnist", tmp_path), *planned("cifar10", tmp_path)]}
    assert not [name for name in names if "denoiser" in name or name.endswith(("tuned", "trained"))]
    assert len(planned("cifar10", tmp_path, ["*-selftrained"])) == 4


def test_the_same_run_is_made_once_for_all_tables_that_need_it(tmp_path):
    eight, nine = (planned(f"smoothmix-supplement/table-{i}", tmp_path) for i in (8, 9))
    both = {job.folder for job in eight} & {job.folder for job in nine}
    places = {str(folder.relative_to(tmp_path)) for folder in both}
    assert places == {"mnist/gaussian-1.00/seed0", "mnist/smoothmix-1.00-eta1/seed0"}
    changed = eight[2].folder.relative_to(tmp_path)
    assert str(changed) == "mnist/smoothmix-1.00-eta1,eta=2.0/seed0"
    as_printed = planned("smoothmix-supplement/table-8", tmp_path, as_printed=True)
    assert not {job.folder for job in as_printed} & {job.folder for job in eight}
    assert all("--as-printed" in job.train for job in as_printed)
    best = planned("smoothadv/table-2", tmp_path, ["SmoothAdv"])
    grids = [planned(f"smoothadv/table-{i}", tmp_path) for i in (8, *range(12, 16))]
    assert {job.folder for job in best} <= {job.folder for grid in grids for job in grid}


def test_as_many_images_are_certified_as_the_table_has(tmp_path):
    for table, rows, stores in (
        ("catrs-supplement/table-8", (), {"test-every10"}),
        ("catrs-supplement/table-12", ("*0.25",), {"test"}),
        ("smoothmix-supplement/table-7", (), {"test-every100"}),  # also where a log stopped at 427
        ("smoothadv/table-17", (), {"test"}),
        ("smoothadv/table-1", ("SmoothAdv",), {"test-every100"}),
    ):
        jobs = planned(table, tmp_path, rows if table != "catrs-supplement/table-12" else ())
        names = {each.name for job in jobs for each in job.certifications}
        assert stores <= names, table


def test_tables_of_corruptions_train_a_model_once_and_certify_it_on_each(tmp_path):
    (job,) = planned("catrs-supplement/table-13", tmp_path, ["Gaussian"])
    assert len(job.certifications) == len({each.name for each in job.certifications}) == 75
    first = job.certifications[0]
    assert first == Certification(100, ("gaussian_noise", 1))
    assert first.words(job.recipe)[2:] == [
        *("--every", "100", "--data", "cifar10-c:gaussian_noise/1"),
        *("--name", "gaussian_noise-1-every100"),
    ]
    (job,) = planned("catrs-supplement/table-24", tmp_path, ["CAT-RS"])
    assert len(job.certifications) == 15


def test_fine_tuned_models_start_from_runs_that_are_made_before(tmp_path):
    jobs = planned("smoothadv-logs/cifar10-both", tmp_path)
    job = jobs[-1]
    before = tmp_path / "imagenet32" / "smoothadv-1.00,epsilon=2.0" / "seed0"
    assert job.starts_from.train == [
        *("train", "imagenet32/smoothadv-1.00", "--seed", "0", "--out", str(before)),
        *("--method.epsilon", "2.0"),
    ]
    assert job.train[6:] == [
        *("--init-from", str(before), "--method.epsilon", "2.0", "--method.steps", "4"),
        *("--self-training.path", "ti_500K_pseudo_labeled.pickle", "--self-training.weight", "0.5"),
    ]
    assert len({job.starts_from.folder for job in jobs}) == 7
    assert len({job.folder for job in jobs}) == 13


@pytest.mark.parametrize("as_printed", [False, True])
def test_the_words_of_a_row_give_the_settings_of_the_row(tmp_path, as_printed):
    seen = set()
    for name in ("catrs-supplement/table-8", "smoothmix-supplement/table-11"):
        wanted = targets(name)
        jobs = {job.folder: job for job in plan(wanted, tmp_path, as_printed=as_printed)}
        for target in wanted:
            (job,) = plan([target], tmp_path, as_printed=as_printed)
            assert job.folder in jobs
            given = frame.parsed(job.train).keywords["settings"]
            typed, meant = load_recipe(job.recipe, given).config, job.config(Given())
            row = target.row.settings_as_printed if as_printed else target.row.settings
            for key in ("method", "epochs", "model", "lr_step"):
                assert getattr(typed, key) == getattr(meant, key)
                if key in row and key != "method":
                    assert getattr(typed, key) == row[key]
            seen.add(frozenset(target.row.change))
    assert len(seen) >= 4


def test_soft_labels_are_shared_where_they_are_the_same(tmp_path):
    shared = {
        target.row.label: plan([target], tmp_path)[0].soft_labels
        for target in targets("catrs-supplement/table-8")
    }
    assert shared["L_base (Gaussian)"] is shared["(a) L_low only"] is None
    place = tmp_path / "cifar10" / "soft-labels,model=resnet20"
    assert shared["CAT-RS"] == shared["(b) L_high only"] == place
