"""`smoothcert denoised` and `ensemble`: run folders that every other command takes."""

import dataclasses
import json
import shutil

import pytest
import torch

from smoothcert import fit, load_dataset, load_recipe
from smoothcert.models import Denoised, Ensemble
from smoothcert.runs.folder import RunFolder
from tests.cli.commands import fails, run


@pytest.fixture(scope="module")
def denoiser(shared_run, tmp_path_factory):
    """A denoiser of two layers, trained through README's classifier."""
    small = {
        "model_options": {"depth": 2, "width": 4},
        "epochs": 1,
        "method": {"classifier": str(shared_run)},
    }
    config = load_recipe("mnist-mini/denoiser-0.50", small).config
    data = load_dataset("mnist-mini", "test")
    few = dataclasses.replace(data, images=data.images[:128], labels=data.labels[:128])
    return fit(
        config,
        tmp_path_factory.mktemp("runs") / "denoiser",
        train=few,
        test=few,
        device="cpu",
        quiet=True,
    ).path


def changed(source, target, **entries):
    """A copy of a run folder with other entries in its model.json."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("certify", "attack"))
    path = target / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))
    return target


def test_a_denoised_classifier_is_certified_verified_and_reported(
    capsys, denoiser, shared_run, tmp_path
):
    out = tmp_path / "run"
    last = RunFolder(denoiser).records("metrics.jsonl")[-1]
    assert {"mse", "stability", "test_mse", "test_psnr"} <= last.keys()
    words = ["denoised", "--denoiser", denoiser, "--classifier", shared_run, "--out", out]
    assert f"certify {out}`" in run(capsys, *words)
    parts = RunFolder(denoiser).load_model(denoiser=True)[0], RunFolder(shared_run).load_model()[0]
    model, spec = RunFolder(out).load_model()
    x = torch.rand(2, 1, 28, 28)
    assert torch.allclose(model(x), Denoised(*parts)(x), atol=1e-5)
    assert (spec.sigma, spec.classes, spec.dataset) == (0.5, 10, "mnist-mini")
    before = (out / "model.json").read_bytes()
    run(capsys, *words)  # again, and nothing changes
    assert (out / "model.json").read_bytes() == before
    run(capsys, "certify", out, "--max", 2, "--n", 100)
    assert "run/test" in run(capsys, "report", out)
    run(capsys, "verify", out, "--resample", 1)
    run(capsys, "attack", out, "--radius", 0.2, "--steps", 1, "--noises", 2, "--n", 100, "--max", 1)
    assert "belongs to another network" in fails(capsys, *words, "--sigma", 0.25)


def test_what_cannot_be_put_together_is_refused_before_anything_is_written(
    capsys, denoiser, shared_run, tmp_path
):
    out = tmp_path / "run"
    words = ["denoised", "--out", out, "--denoiser"]
    for given, message in (
        ([shared_run, "--classifier", shared_run], "expected a denoiser"),
        ([denoiser, "--classifier", denoiser], "is a denoiser, which names no classes"),
        ([denoiser], "name one classifier"),
        ([denoiser, "--model", "lenet"], "also needs --data"),
        (["nets.py:make", "--classifier", shared_run], "give --sigma"),
        ([denoiser, "--classifier", shared_run, "--sigma", 0], "sigma"),
        ([tmp_path, "--classifier", shared_run], "is not a run folder"),
    ):
        assert message in fails(capsys, *words, *given)
    for command in (["certify"], ["attack", "--radius", 1]):
        assert "is a denoiser, which names no classes" in fails(
            capsys, command[0], denoiser, *command[1:]
        )
    assert not out.exists()


def test_a_classifier_of_another_size_gets_images_of_its_own(capsys, denoiser, tmp_path):
    (tmp_path / "sized.py").write_text(
        "from torch import nn\n\ndef make(classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(196, classes))\n"
    )
    model = [
        "--model",
        f"{tmp_path / 'sized.py'}:make",
        "--data",
        "mnist-mini",
        "--normalisation",
        "size=14x14",
    ]
    out = tmp_path / "run"
    printed = run(capsys, "denoised", "--denoiser", denoiser, *model, "--out", out)
    assert "--trust-code" in printed
    assert "would run that Python code" in fails(capsys, "certify", out)  # the code of a part
    assert RunFolder(out).load_model(trust_code=True)[0](torch.rand(1, 1, 28, 28)).shape == (1, 10)


def test_a_denoiser_of_your_own_code(capsys, shared_run, tmp_path):
    (tmp_path / "own_unet.py").write_text(
        "from torch import nn\n\nfrom smoothcert.models import OneShotDiffusion\n\n\n"
        "class UNet(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv = nn.Conv2d(1, 2, 3, padding=1)\n\n"
        "    def forward(self, x, t):\n        return self.conv(x) * t[:, None, None, None] / 1000\n\n\n"
        "def make():\n    return OneShotDiffusion(UNet(), 0.5, schedule='cosine', steps=4000, rescale_time=True)\n"
    )
    out, name = tmp_path / "run", f"{tmp_path / 'own_unet.py'}:make"
    run(
        capsys,
        "denoised",
        "--denoiser",
        name,
        "--classifier",
        shared_run,
        "--sigma",
        0.5,
        "--out",
        out,
    )
    assert "would run that Python code" in fails(capsys, "certify", out)
    assert "run/test" in run(capsys, "certify", out, "--trust-code", "--max", 1, "--n", 50)


def test_an_ensemble_answers_by_the_mean_of_its_members(capsys, denoiser, shared_run, tmp_path):
    both = tmp_path / "both"
    run(
        capsys,
        "denoised",
        "--denoiser",
        denoiser,
        "--classifier",
        shared_run,
        "--out",
        tmp_path / "denoised",
    )
    run(capsys, "ensemble", shared_run, tmp_path / "denoised", "--out", both)
    members = [RunFolder(folder).load_model()[0] for folder in (shared_run, tmp_path / "denoised")]
    model, spec = RunFolder(both).load_model()
    x = torch.rand(2, 1, 28, 28)
    assert torch.allclose(model(x), (members[0](x) + members[1](x)) / 2, atol=1e-5)
    assert torch.allclose(model(x), Ensemble(members)(x), atol=1e-6)
    assert spec.sigma == 0.5
    assert "both/test" in run(capsys, "certify", both, "--max", 1, "--n", 50)


@pytest.mark.parametrize("entry", [{"sigma": 0.25}, {"class_names": list("abcdefghij")}])
def test_members_that_do_not_belong_together_are_refused(capsys, shared_run, tmp_path, entry):
    other = changed(shared_run, tmp_path / "other", **entry)
    error = fails(capsys, "ensemble", shared_run, other, "--out", tmp_path / "run")
    assert f"have the same {next(iter(entry))}" in error
    assert not (tmp_path / "run").exists()


def test_a_model_trained_without_noise_is_certified_with_a_sigma_that_is_given(
    capsys, shared_run, tmp_path
):
    plain = changed(shared_run, tmp_path / "plain", sigma=0.0)
    assert "trained without noise: give sigma" in fails(capsys, "certify", plain, "--max", 1)
    assert "trained with sigma 0, now certified with 0.25" in run(
        capsys, "certify", plain, "--max", 1, "--n", 50, "--sigma", 0.25
    )
