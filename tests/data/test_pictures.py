"""`folder:PATH`: what is found in a folder of pictures, what is done to them, and what is refused."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from smoothcert.data import UNLABELLED, faults, load_dataset, with_classes
from smoothcert.data.corruptions import load_stored
from smoothcert.errors import ConfigError, DataError, MissingExtra, SmoothcertError
from tests.data.test_image_file import png_header

Image = pytest.importorskip("PIL.Image")


def pixels(width, height, seed=0, channels=3):
    shape = (height, width, 3)[: 2 + (channels == 3)]
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def save(path, width=8, height=6, seed=0, channels=3):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(width, height, seed, channels)).save(path)


def tree(root, *names, **settings):
    for seed, name in enumerate(names):
        save(root / name, seed=seed, **settings)
    return root


def names(folder):
    return [str(path) for path in folder.files]


def test_class_folders_give_labels_in_the_order_of_names(tmp_path):
    tree(tmp_path, "dog/b.png", "cat/z.png", "dog/sub/a.png", "cat/a.png")
    found = load_dataset(f"folder:{tmp_path}")
    assert names(found) == ["cat/a.png", "cat/z.png", "dog/b.png", "dog/sub/a.png"]
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert (found.classes, found.class_names, found.labelled) == (2, ("cat", "dog"), True)
    assert (found.shape, found.preparation, found.name) == (
        (3, 6, 8),
        "",
        f"folder:{tmp_path.name}",
    )
    assert np.array_equal(found.image(2), pixels(8, 6, 0).transpose(2, 0, 1))


def test_a_flat_folder_has_no_labels_and_odd_files_are_passed_over(tmp_path):
    tree(tmp_path, "b.png", "a.PNG")
    for name in (
        ".DS_Store",
        "Thumbs.db",
        "._a.png",
        ".hidden/x.png",
        "__MACOSX/x.png",
        "notes.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"?")
    found = load_dataset(f"folder:{tmp_path}", classes=7)
    assert names(found) == ["a.PNG", "b.png"]
    assert (found.labels.tolist(), found.labelled, found.classes) == ([UNLABELLED] * 2, False, 7)


def test_splits_are_sub_folders(tmp_path):
    tree(tmp_path, "train/cat/a.png", "train/dog/a.png", "val/cat/b.png", "val/dog/b.png")
    assert names(load_dataset(f"folder:{tmp_path}", "train")) == ["cat/a.png", "dog/a.png"]
    assert names(load_dataset(f"folder:{tmp_path}", "test")) == ["cat/b.png", "dog/b.png"]
    (tmp_path / "val").rename(tmp_path / "other")
    with pytest.raises(DataError, match=r"expected a split test or val .*found only train"):
        load_dataset(f"folder:{tmp_path}", "test")


def test_pictures_are_brought_to_the_shape_of_the_network(tmp_path):
    tree(tmp_path, "a.png", "b.png", width=50, height=30)
    save(tmp_path / "c.png", 3, 2)  # smaller than asked for: enlarged
    save(tmp_path / "d.png", 20, 20)  # as asked for: left alone
    found = load_dataset(f"folder:{tmp_path}", shape=(3, 20, 20))
    resized = Image.fromarray(pixels(50, 30)).resize((33, 20), Image.Resampling.BILINEAR)
    assert np.array_equal(found.image(0), np.asarray(resized)[:, 6:26].transpose(2, 0, 1))
    assert found.image(2).shape == (3, 20, 20)
    assert np.array_equal(found.image(3), pixels(20, 20).transpose(2, 0, 1))
    told = "where the size differs, shorter side to 20, up or down (bilinear, antialiased), central 20x20"
    assert (found.preparation, found.name) == (told, f"folder:{tmp_path.name},size=20,colour")
    same = load_stored(found.name, "test", tmp_path.parent)
    assert same.fingerprint() == found.fingerprint()
    assert np.array_equal(same.image(2), found.image(2))


def test_options_choose_size_and_colour(tmp_path):
    tree(tmp_path, "a.png", width=50, height=30)
    found = load_dataset(f"folder:{tmp_path},size=8x16,resize=10,grey")
    assert found.shape == (1, 8, 16)
    # 20 x 10 pixels are covered by 20 x 12, of which the central 16 x 8 remain
    grey = Image.fromarray(pixels(50, 30)).convert("L").resize((20, 12), Image.Resampling.BILINEAR)
    assert np.array_equal(found.image(0)[0], np.asarray(grey)[2:10, 2:18])
    assert found.name.endswith(",size=8x16,resize=10,grey")
    assert found.preparation.startswith("scaled to cover 10x20, up or down")
    assert "where there are colours, grey (0.299 R" in found.preparation
    assert found.train_image(0, np.random.default_rng(0)).shape == (1, 8, 16)
    assert load_dataset(f"folder:{tmp_path},grey").shape == (1, 30, 50)
    assert load_dataset(f"folder:{tmp_path},size=9", shape=(1, 224, 224)).shape == (1, 9, 9)


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        ("sise=3", None, "unknown option of folder: 'sise': did you mean size"),
        ("size=0", None, "numbers of pixels from 1"),
        ("size=0x28", None, "found '0x28'"),
        ("size=1x2x3", None, "height x width"),
        ("size=8,resize=4", None, "resize=4 is smaller than the size 8x8"),
        ("size", None, "expected size=..."),
        ("grey=1", None, "expected grey"),
        ("grey,colour", None, "found both"),
        ("size=8,size=9", None, "there twice"),
        ("size=8", (4, 8, 8), "found 4 asked for"),
        ("size=8", (8, 8), "expected a shape"),
        ("labels=x.csv", None, "no such file"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, shape, message):
    tree(tmp_path, "a.png")
    with pytest.raises(SmoothcertError, match=message):
        load_dataset(f"folder:{tmp_path},{options}", shape=shape)


def test_commas_may_be_in_a_place_that_exists(tmp_path):
    tree(tmp_path / "cats, dogs,size=3", "a.png")
    found = load_dataset(f"folder:{tmp_path}/cats, dogs,size=3,grey")
    assert (found.root.name, found.shape) == ("cats, dogs,size=3", (1, 6, 8))


def test_a_place_is_looked_for_here_and_in_the_data_directories(tmp_path, monkeypatch):
    tree(tmp_path / "data" / "pets", "a.png")
    monkeypatch.chdir(tmp_path)
    assert (
        len(load_dataset("folder:data/pets"))
        == len(load_dataset("folder:pets", data_dir=Path("data")))
        == 1
    )
    monkeypatch.setenv("SMOOTHCERT_DATA", "data")
    assert len(load_dataset("folder:pets")) == 1
    with pytest.raises(DataError, match="no such file or folder; looked for"):
        load_dataset("folder:cars")
    with pytest.raises(ConfigError, match=r"data/pets is a place, .* write folder:data/pets"):
        load_dataset("data/pets")
    with pytest.raises(ConfigError, match="unknown dataset 'folders:pets'"):
        load_dataset("folders:pets")
    with pytest.raises(
        ConfigError, match=r"split is one of .*test, found 'tset'; did you mean test"
    ):
        load_dataset("folder:pets", "tset")


@pytest.mark.parametrize(
    "name",
    [
        "folder:/",
        "folder:../x",
        "folder:~",
        "npz:/etc/a.npz",
        "folder:..",
        "folder:a/b",
        "folder:../train",
        "folder:/train",
        "folder:a/b/train",
        "folder:~/train",
    ],
)
def test_a_manifest_cannot_name_paths(name):
    with pytest.raises(DataError, match="found a path"):
        load_stored(name, "test")


def test_a_folder_that_is_called_as_a_split_has_the_name_above_it_too(tmp_path):
    """Many sets have such a folder: a store that calls its data folder:train could mean any."""
    tree(tmp_path / "pets", "train/cat/a.png", "train/dog/b.png")
    found = load_dataset(f"folder:{tmp_path / 'pets' / 'train'}")
    assert found.name == "folder:pets/train"
    again = load_stored(found.name, "test", tmp_path)
    assert again.fingerprint() == found.fingerprint()


def test_the_fingerprint_names_contents_labels_and_preparation(tmp_path):
    tree(tmp_path, "cat/a.png", "dog/b.png", channels=1)
    spec = f"folder:{tmp_path}"
    found = [
        load_dataset(spec + more).fingerprint()
        for more in ("", ",labels=none", ",size=5", ",size=5,resize=6")
    ]
    content = bytearray((tmp_path / "cat/a.png").read_bytes())
    content[-1] ^= 1  # of the same size
    (tmp_path / "cat/a.png").write_bytes(content)
    found.append(load_dataset(spec).fingerprint())
    (tmp_path / "cat/a.png").rename(tmp_path / "cat/c.png")
    found.append(load_dataset(spec).fingerprint())
    assert len(set(found)) == 6
    assert found[-1] == load_dataset(spec).fingerprint()


def test_a_file_that_changes_after_it_was_hashed_is_refused(tmp_path):
    tree(tmp_path, "a.png", "b.png")
    found = load_dataset(f"folder:{tmp_path}")
    found.fingerprint()
    save(tmp_path / "a.png", seed=9)
    with pytest.raises(DataError, match=r"a.png: the file has changed since"):
        found.image(0)
    assert found.image(1).shape == (3, 6, 8)


def damaged(path):
    save(path, 200, 200)
    path.write_bytes(path.read_bytes()[:-5000])


def bomb(path):
    path.write_bytes(png_header(10_001, 10_001))


CASES = {
    "empty.png": (lambda path: path.write_bytes(b""), "expected a readable picture"),
    "text.png": (lambda path: path.write_text("text" * 99), "expected a readable picture"),
    "alpha.png": (lambda path: Image.new("RGBA", (8, 6)).save(path), "has transparent pixels"),
    "palette.png": (
        lambda path: Image.new("P", (8, 6)).save(path, transparency=0),
        "has transparent pixels",
    ),
    "cmyk.tif": (lambda path: Image.new("CMYK", (8, 6)).save(path), "found CMYK"),
    "deep.png": (
        lambda path: Image.fromarray(np.zeros((6, 8), np.uint16)).save(path),
        "8 bits per channel",
    ),
    "moving.png": (
        lambda path: Image.new("L", (8, 6)).save(
            path, save_all=True, append_images=[Image.new("L", (8, 6), 1)]
        ),
        "found 2 frames",
    ),
    "other.png": (
        lambda path: save(path, 9, 6),
        r"6 x 8 pixels \(height x width\).* found 6 x 9: give a size",
    ),
    "bomb.png": (bomb, "at most 100 million pixels, found 10001 x 10001"),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_bad_pictures_are_named_by_their_headers_and_when_they_are_read(tmp_path):
    save(tmp_path / "_first.png")
    for name, (make, _) in CASES.items():
        make(tmp_path / name)
    found = load_dataset(f"folder:{tmp_path}")
    assert names(found) == ["_first.png", *sorted(CASES)]
    told = faults(found)
    assert len(told) == len(CASES)
    assert faults(found, limit=2) == told[:2]
    for i, name in enumerate(sorted(CASES)):
        pattern = f"{name}.*{CASES[name][1]}"
        with pytest.raises(DataError, match=pattern) as refused:
            found.image(1 + i)
        assert str(refused.value) == told[i]
    assert found.image(0).shape == (3, 6, 8)


def test_damage_behind_the_header_is_found_when_the_picture_is_read(tmp_path):
    save(tmp_path / "a.png", 200, 200)
    damaged(tmp_path / "b.png")
    found = load_dataset(f"folder:{tmp_path}")
    assert faults(found) == []
    with pytest.raises(DataError, match=r"b.png: expected a readable picture"):
        found.image(1)


def test_colours_among_grey_pictures_are_refused_unless_asked_for(tmp_path):
    save(tmp_path / "a.png", channels=1)
    save(tmp_path / "b.png")
    with pytest.raises(DataError, match=r"b.png: expected a grey picture, as the first one"):
        load_dataset(f"folder:{tmp_path}").image(1)
    assert load_dataset(f"folder:{tmp_path},grey").image(1).shape == (1, 6, 8)
    colour = load_dataset(f"folder:{tmp_path},colour").image(0)
    assert np.array_equal(colour, np.repeat(pixels(8, 6, 0, 1)[None], 3, axis=0))


def test_pictures_are_turned_as_their_orientation_says(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(pixels(8, 6)).save(tmp_path / "a.png", exif=exif)
    found = load_dataset(f"folder:{tmp_path}")
    assert found.shape == (3, 8, 6)
    assert np.array_equal(found.image(0), np.rot90(pixels(8, 6), -1).transpose(2, 0, 1))
    assert faults(found) == []


def test_a_picture_too_long_to_be_resized_is_refused(tmp_path):
    save(tmp_path / "a.png", 60_000, 1, channels=1)
    with pytest.raises(
        DataError, match=r"a.png: a picture of 60000 x 1 becomes one of 13440000 x 224"
    ):
        load_dataset(f"folder:{tmp_path}", shape=(1, 224, 224)).image(0)


def test_links_are_followed_but_not_in_circles(tmp_path):
    tree(tmp_path / "there", "x.png")
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    os.symlink(tmp_path / "there", pictures / "cat")
    os.symlink(tmp_path / "there", pictures / "dog")
    assert names(load_dataset(f"folder:{pictures}")) == ["cat/x.png", "dog/x.png"]
    os.symlink(tmp_path / "missing.png", pictures / "dog" / "y.png")
    with pytest.raises(DataError, match=r"y.png: expected a picture, found a link to nothing"):
        load_dataset(f"folder:{pictures}")
    (pictures / "dog" / "y.png").unlink()
    os.symlink(pictures, pictures / "dog" / "above")
    with pytest.raises(DataError, match="the link leads back"):
        load_dataset(f"folder:{pictures}")


def test_the_licence_is_the_first_line_of_its_file(tmp_path):
    tree(tmp_path, "test/a.png")
    assert load_dataset(f"folder:{tmp_path}").licence == ""
    (tmp_path / "LICENSE.txt").write_text("\n  CC BY 4.0  \nand more\n")
    assert load_dataset(f"folder:{tmp_path}").licence == "CC BY 4.0"


def test_a_set_is_for_the_classes_of_a_network_if_its_labels_can_be(tmp_path):
    tree(tmp_path, "a.png", "b.png")
    bare = load_dataset(f"folder:{tmp_path}")
    assert (bare.classes, with_classes(bare, 10).classes, bare.classes) == (0, 10, 0)
    assert with_classes(bare, 10).fingerprint() == bare.fingerprint()
    (tmp_path / "labels.csv").write_text("file,label\na.png,0\nb.png,4\n")
    numbered = load_dataset(f"folder:{tmp_path}")
    assert with_classes(numbered, 10).classes == 10
    with pytest.raises(DataError, match="labels from 0 to 3, found 4 for image 1"):
        with_classes(numbered, 4)
    with pytest.raises(DataError, match="has 10 classes, the network 9"):
        with_classes(load_dataset("mnist-mini"), 9)
    with pytest.raises(DataError, match="mnist-mini has 10 classes, the network 9"):
        load_dataset("mnist-mini", classes=9)


def test_without_the_package_datasets_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        MissingExtra, match=r"hf-dataset:pets needs the package 'datasets'.*smoothcert\[hf\]"
    ):
        load_dataset("hf-dataset:pets")
