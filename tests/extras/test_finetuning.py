"""Fine-tuning of a network of transformers: its weights, its normalisation and its configuration come along."""

import json

import pytest
import torch

from smoothcert import load_dataset, load_recipe
from smoothcert.config import TrainConfig
from smoothcert.models.bring import find_model
from smoothcert.training.fit import fit

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("method", ["gaussian", "consistency", "catrs"])
def test_a_classifier_of_another_number_of_classes_is_tuned(tmp_path, monkeypatch, method):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    torch.manual_seed(0)
    about = transformers.ViTConfig(
        image_size=14, patch_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        num_channels=1, num_labels=7,
    )  # fmt: skip
    transformers.AutoModelForImageClassification.from_config(about).save_pretrained(
        tmp_path / "vit"
    )
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": 14, "width": 14}}
    processor |= {"image_mean": [0.25], "image_std": [0.5]}
    (tmp_path / "vit" / "preprocessor_config.json").write_text(json.dumps(processor))
    still = {
        "epochs": 1,
        "lr": 1e-30,
        "weight_decay": 0.0,
        "evaluate_every": 0,
        "soft_labels": {"n": 2},
    }
    given = {
        "dataset": "mini",
        "model": f"hf:{tmp_path / 'vit'}",
        "sigma": 0.25,
        "method": {"name": method},
    }
    config = load_recipe("finetune", {**given, **still}).config
    assert isinstance(config, TrainConfig)
    data = load_dataset("mnist-mini", "test")
    few = type(data)("mini", "train", data.images[:64], data.labels[:64], 10)
    run = fit(config, tmp_path / "run", train=few, device="cpu", quiet=True)
    before = find_model(given["model"]).network.state_dict()
    (tmp_path / "vit").rename(tmp_path / "gone")  # the run folder needs it no more
    model, spec = run.load_model()
    assert spec.normalisation == "size=14x14 mean=0.25 std=0.5"
    found = model.get_submodule("1").state_dict()
    head = [name for name, value in found.items() if before[name].shape != value.shape]
    assert head == ["network.classifier.weight", "network.classifier.bias"]
    for name in found.keys() - set(head):
        assert torch.allclose(found[name], before[name], rtol=0, atol=1e-20), (
            name
        )  # zeros take a step of 1e-30
