"""A diffusion model of diffusers before a classifier: from its folder, and again from the run folder alone."""

import pytest
import torch

from smoothcert.errors import ModelError
from smoothcert.models import OneShotDiffusion
from smoothcert.models.diffusers_unet import DiffusersUNet, schedule_settings
from smoothcert.models.diffusion import abar
from smoothcert.runs.folder import RunFolder
from tests.cli.commands import fails, run

diffusers = pytest.importorskip("diffusers")

TINY = {
    "sample_size": 28,
    "in_channels": 1,
    "out_channels": 2,  # the second is a variance, of no use here
    "block_out_channels": (8, 8),
    "down_block_types": ("DownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "UpBlock2D"),
    "layers_per_block": 1,
    "norm_num_groups": 4,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny pipeline as diffusers stores it, of random weights."""
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("diffusers") / "tiny"
    scheduler = diffusers.DDPMScheduler(beta_schedule="squaredcos_cap_v2", num_train_timesteps=200)
    diffusers.DDPMPipeline(diffusers.UNet2DModel(**TINY), scheduler).save_pretrained(place)
    return place


@pytest.mark.filterwarnings("ignore")
def test_a_folder_becomes_a_denoiser_and_a_run_folder(capsys, folder, shared_run, tmp_path):
    words = [
        "--denoiser",
        f"diffusers:{folder}",
        "--classifier",
        shared_run,
        "--out",
        tmp_path / "run",
    ]
    assert "give --sigma" in fails(capsys, "denoised", *words)
    run(capsys, "denoised", *words, "--sigma", 0.25)
    unet = DiffusersUNet(diffusers.UNet2DModel.from_pretrained(folder / "unet"))
    denoiser = OneShotDiffusion(unet, 0.25, schedule="cosine", steps=200).eval()
    classifier, _ = RunFolder(shared_run).load_model()
    folder.rename(folder.with_name("gone"))  # the run folder needs it no more
    model, spec = RunFolder(tmp_path / "run").load_model()
    folder.with_name("gone").rename(folder)
    x = torch.rand(2, 1, 28, 28)
    with torch.no_grad():
        assert torch.allclose(model(x), classifier(denoiser(x)), atol=1e-5)
    assert spec.sigma == 0.25
    run(capsys, "certify", tmp_path / "run", "--max", 1, "--n", 50)


@pytest.mark.parametrize("name", ["linear", "scaled_linear", "squaredcos_cap_v2"])
def test_schedules_are_those_of_diffusers(name):
    scheduler = diffusers.DDPMScheduler(beta_schedule=name, num_train_timesteps=300, beta_end=0.03)
    settings = schedule_settings(scheduler.config)
    kept = abar(settings["schedule"], settings["steps"], settings["beta"])
    assert torch.allclose(torch.tensor(kept), scheduler.alphas_cumprod, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_folders_that_are_no_diffusion_model_are_refused(capsys, folder, shared_run, tmp_path):
    words = [
        "denoised",
        "--classifier",
        shared_run,
        "--sigma",
        0.5,
        "--out",
        tmp_path / "run",
        "--denoiser",
    ]
    assert "expected unet/config.json" in fails(capsys, *words, f"diffusers:{tmp_path}")
    (tmp_path / "half" / "unet").mkdir(parents=True)
    (tmp_path / "half" / "unet" / "config.json").write_text("{}")
    (tmp_path / "half" / "scheduler_config.json").write_text("[1")
    assert "expected a JSON object" in fails(capsys, *words, f"diffusers:{tmp_path / 'half'}")
    (tmp_path / "half" / "scheduler_config.json").write_text("{}")
    assert "expected a UNet2DModel and its weights" in fails(
        capsys, *words, f"diffusers:{tmp_path / 'half'}"
    )
    assert not (tmp_path / "run").exists()
    for wrong in (
        {"beta_schedule": "sigmoid"},
        {"prediction_type": "flow"},
        {"trained_betas": [0.1]},
    ):
        with pytest.raises(ModelError, match=next(iter(wrong))):
            schedule_settings(wrong)
