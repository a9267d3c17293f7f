"""Networks of transformers and timm, small ones built from local configurations: nothing is downloaded."""

import json

import pytest
import torch

from smoothcert.errors import ModelError
from smoothcert.models.bring import bring_model, find_model
from smoothcert.models.build import build_model
from smoothcert.models.external import nothing_fetched
from smoothcert.models.hf import processor_form
from smoothcert.models.normalise import InputForm, normalisation_layer
from smoothcert.runs.folder import RunFolder
from tests.cli.commands import fails, run

SMALL = ["--data", "mnist-mini", "--sigma", 0.5, "--n", 100, "--max", 3, "--device", "cpu"]


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A folder as `save_pretrained` writes it."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("hf") / "vit"
    names = {i: f"digit {i}" for i in range(10)}
    config = transformers.ViTConfig(
        image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37,
        num_channels=1, id2label=names, label2id={name: i for i, name in names.items()},
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.AutoModelForImageClassification.from_config(config).save_pretrained(folder)
    about = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}
    about |= {
        "image_mean": [0.25],
        "image_std": [0.5],
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(about))
    return folder


def test_a_classifier_of_transformers_is_certified(capsys, vit, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = tmp_path / "run"
    command = ["certify", "--model", f"hf:{vit}", *SMALL, "--out", out]
    printed = run(capsys, *command)
    spec = RunFolder(out).spec()
    assert spec.normalisation == "size=32x32 mean=0.25 std=0.5"
    assert spec.class_names[3] == "digit 3"
    assert run(capsys, *command) == printed
    # the run folder needs neither the folder of the network nor its name
    for file in vit.iterdir():
        file.rename(file.with_suffix(".gone"))
    try:
        assert run(capsys, "certify", out, "--n", 100, "--max", 3) == printed
        assert "expected an image classifier and its processor" in fails(capsys, *command)
    finally:
        for file in vit.glob("*.gone"):
            file.rename(file.with_suffix(".safetensors" if "model" in file.name else ".json"))


def test_what_is_certified_is_what_transformers_computes(vit):
    transformers = pytest.importorskip("transformers")
    image = (torch.rand(1, 32, 32) * 255).to(torch.uint8)
    found = bring_model(find_model(f"hf:{vit}"), image)
    whole = transformers.AutoModelForImageClassification.from_pretrained(vit).eval()
    with torch.no_grad():
        expected = whole(pixel_values=(image[None] / 255 - 0.25) / 0.5).logits
        torch.testing.assert_close(found.model(image[None] / 255), expected)
    assert found.normalisation == "mean=0.25 std=0.5"  # the size is that of the images


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        ({"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 8, "width": 6}},
         InputForm((0.5,) * 3, (0.5,) * 3, size=(8, 6))),
        ({"do_normalize": False, "size": 224}, InputForm(size=(224, 224))),
        ({"do_normalize": False, "do_resize": False, "do_rescale": False}, InputForm(range=(0.0, 255.0))),
        ({"do_normalize": False, "do_resize": False, "rescale_factor": 1 / 127.5}, InputForm(range=(0.0, 2.0))),
        ({"do_normalize": False, "size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": 224},
         InputForm(size=(224, 224))),
        ({"image_mean": [0.5], "image_std": [0.25], "do_resize": False, "include_top": True},  # EfficientNet's own
         InputForm((0.5,), (0.0625,))),
        ({"do_normalize": False, "do_resize": False, "rescale_factor": 1 / 127.5, "rescale_offset": True},
         InputForm(range=(-1.0, 1.0))),
        ({"data_config": {"input_size": [3, 160, 160], "mean": [0.5] * 3, "std": [0.25] * 3}},  # timm's
         InputForm((0.5,) * 3, (0.25,) * 3, size=(160, 160))),
    ],
)  # fmt: skip
def test_processors_in_numbers(processor, expected):
    assert processor_form(processor) == expected
    normalisation_layer(expected.text())


def test_a_processor_that_swaps_red_and_blue_is_refused():
    with pytest.raises(ModelError, match="blue, green, red"):
        processor_form({"do_flip_channel_order": True})


@pytest.fixture(scope="module")
def timm():
    pytest.importorskip("torchvision")
    return pytest.importorskip("timm")


def test_a_network_of_timm_is_certified(capsys, timm, tmp_path):
    torch.manual_seed(0)
    options = {"img_size": 32, "in_chans": 1}
    network = timm.create_model("test_vit", num_classes=10, **options)
    timm.models.save_for_hf(network, tmp_path / "vit", model_args=options)
    out = tmp_path / "run"
    printed = run(
        capsys, "certify", "--model", f"timm:local-dir:{tmp_path / 'vit'}", *SMALL, "--out", out
    )
    spec = RunFolder(out).spec()
    assert (spec.architecture, spec.options) == ("timm:test_vit", options)
    assert spec.normalisation == "size=32x32 mean=0.5 std=0.5"
    assert run(capsys, "certify", out, "--n", 100, "--max", 3) == printed
    torch.save({"model": network.state_dict()}, tmp_path / "w.pth")
    image = torch.zeros(3, 160, 160, dtype=torch.uint8)
    found = find_model("timm:test_resnet", tmp_path / "w.pth")
    assert found.shape == (3, 160, 160)
    with pytest.raises(Exception, match="does not fit the model"):
        bring_model(found, image, 10, weights=tmp_path / "w.pth")


def test_torchvision_in_one_sentence(capsys, timm, tmp_path):
    assert "unknown torchvision model 'resnet19'" in fails(
        capsys, "certify", "--model", "torchvision:resnet19", *SMALL, "--out", tmp_path / "run"
    )


TINY = dict.fromkeys(("hidden_size", "intermediate_size", "head_dim", "num_attention_heads"), 8)


@pytest.mark.parametrize(
    ("within", "said"),
    [
        (lambda named: {"model_type": "bert", **named}, "cannot build the image classifier"),
        # the parts of this one are made by a call that leaves the question open
        (
            lambda named: {
                "model_type": "shieldgemma2",
                "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 1, **TINY},
                "vision_config": {"model_type": "trocr", **named},
            },
            "found 'vision_config.auto_map', by which",
        ),
    ],
)
def test_a_model_json_cannot_have_its_code_fetched(vit, tmp_path, monkeypatch, within, said):
    """Unasked, transformers would ask on the terminal; here the answer would be yes."""
    from smoothcert.models.hf import hf_network

    (tmp_path / "evil.py").write_text("raise SystemExit('was run')")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    place = f"{tmp_path}--evil.Evil"
    named = {
        "hidden_size": 8,
        "auto_map": dict.fromkeys(("AutoModel", "AutoModelForImageClassification"), place),
    }
    with pytest.raises(ModelError, match=said):
        hf_network(10, {**within(named), "_name_or_path": str(tmp_path)})


@pytest.mark.parametrize(
    "option", ["checkpoint_path", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay"]
)
def test_a_model_json_cannot_name_a_file_of_weights(timm, option):
    with pytest.raises(ModelError, match=f"found '{option}', by which weights, .* leave it out"):
        build_model("timm:test_resnet", 10, **{option: "evil.pth"})


class MarksAFile:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.fixture(scope="module")
def wrapped(timm, tmp_path_factory):
    """A folder of transformers with a network of timm."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("hf") / "timm"
    names = {0: "weights", 1: "backbone", **{i: f"digit {i}" for i in range(2, 10)}}
    config = transformers.TimmWrapperConfig(
        architecture="test_resnet", model_args={"in_chans": 1}, id2label=names,
        label2id={name: i for i, name in names.items()},
        pretrained_cfg={"tag": "r160_in1k", "hf_hub_id": "timm/test_resnet.r160_in1k"},
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.AutoModelForImageClassification.from_config(config).save_pretrained(folder)
    about = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps(about))
    return folder


def test_a_run_folder_opens_no_file_that_its_network_of_timm_names(capsys, wrapped, tmp_path):
    out, evil, marker = tmp_path / "run", tmp_path / "evil.pth", tmp_path / "was opened"
    printed = run(
        capsys, "certify", "--model", f"hf:{wrapped}", *SMALL, "--out", out,
        "--normalisation", "size=32x32 mean=0.5 std=0.5",
    )  # fmt: skip
    again = ["certify", out, "--n", 100, "--max", 3]
    assert run(capsys, *again) == printed
    torch.save(MarksAFile(marker), evil)
    for file in (out / "model.json", wrapped / "config.json"):
        about = json.loads(file.read_text())
        config = about["options"]["config"] if "options" in about else about
        config["model_args"]["checkpoint_path"] = str(evil)
        file.write_text(json.dumps(about))
    assert "found 'model_args.checkpoint_path', by which" in fails(capsys, *again)
    with pytest.raises(ModelError, match=r"found 'model_args\.checkpoint_path', by which"):
        find_model(f"hf:{wrapped}")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ("auto_map.AutoModel", "someone/else--code.Net"),
        ("attribute_map.other", "auto_map"),
        ("attn_implementation", "someone/kernel"),
        ("_attn_implementation", "someone/kernel@v1:attention"),
        ("architecture", "hf-hub:someone/else"),
        ("use_pretrained_backbone", True),
        ("backbone", "resnet18"),
        ("backbone_kwargs.checkpoint_path", "evil.pth"),
        ("backbone_config.model_args.checkpoint_path", "evil.pth"),
        ("members.0.weights", "evil.pth"),
        ("pretrained_cfg.file", "evil.pth"),
    ],
)
def test_no_part_of_a_network_names_a_place(keys, value):
    first, *below = reversed(keys.split("."))
    nested = {first: value}
    for key in below:
        nested = [nested] if key == "0" else {key: nested}
    with pytest.raises(ModelError, match="by which weights, a configuration or code would be"):
        nothing_fetched({"vision_config": nested})


@pytest.mark.parametrize("names", ["label2id", "label_descriptions"])
def test_classes_may_be_called_as_they_like(names):
    nothing_fetched({names: {"weights": "of a scale", "backbone": "of a fish"}})


def test_honest_configurations_name_no_place():
    transformers = pytest.importorskip("transformers")
    types = transformers.models.auto.modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES
    for name in types:
        config = transformers.AutoConfig.for_model(name)
        nothing_fetched(json.loads(config.to_json_string(use_diff=False)))
    nothing_fetched({"pretrained_window_sizes": [12, 12, 12, 6], "attn_implementation": "sdpa"})
