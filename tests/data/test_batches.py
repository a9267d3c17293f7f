import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.data import Batch, Batches, Dataset, ImageFolder
from smoothcert.data.augment import crop_flip
from smoothcert.errors import ConfigError, DataError


def toy(size=23, shape=(3, 8, 6), dtype=np.uint8) -> Dataset:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (size, *shape)).astype(np.uint8)
    if dtype == np.float32:
        images = rng.random((size, *shape)).astype(np.float32)
    return Dataset("toy", "train", images, np.arange(size) % 7, 7)


def same(a: Batch, b: Batch) -> bool:
    noise = [torch.randn(5, generator=batch.generator.clone_state()) for batch in (a, b)]
    pairs = [(a.images, b.images), (a.labels, b.labels), (a.index, b.index), noise]
    return all(torch.equal(x, y) for x, y in pairs)


def indices(batches: Batches, epoch: int) -> list[int]:
    return torch.cat([batch.index for batch in batches.epoch(epoch)]).tolist()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_a_batch_holds_the_images_and_labels_of_its_indices(dtype):
    data = toy(dtype=dtype)
    batches = Batches(data, 5, seed=1)
    assert len(batches) == 5
    for batch in batches.epoch(0):
        expected = data.images[batch.index.numpy()]
        if dtype == np.uint8:
            expected = expected.astype(np.float32) / np.float32(255)
        assert batch.images.dtype == torch.float32
        assert np.array_equal(batch.images.numpy(), expected)
        assert batch.labels.tolist() == data.labels[batch.index.numpy()].tolist()


def test_with_weights_an_epoch_is_so_many_draws_with_replacement():
    weights = torch.arange(23, dtype=torch.float64) % 5  # each fifth image has weight 0
    batches, epochs, drawn = Batches(toy(), 5, seed=1), 800, torch.zeros(23)
    for epoch in range(epochs):
        found = torch.cat([batch.index for batch in batches.epoch(epoch, weights=weights)])
        assert len(found) == 23
        drawn += found.bincount(minlength=23)
    expected = epochs * 23 * weights / weights.sum()
    assert (drawn[weights == 0] == 0).all()
    chi2 = ((drawn - expected).square() / expected)[weights > 0].sum()
    assert chi2 < 43  # 17 degrees of freedom: once in 2000


@pytest.mark.parametrize("start", [0, 3])
def test_weighted_epochs_have_tails_and_shares_like_others(start):
    weights = torch.arange(23) % 3 + 0.5
    batches = Batches(toy(), 6, seed=1, augment="crop-flip")
    whole, tail = (list(batches.epoch(2, first, weights)) for first in (0, start))
    assert all(same(a, b) for a, b in zip(whole[start:], tail, strict=True))
    ranks = [
        Batches(toy(), 6, seed=1, rank=rank, world_size=2).epoch(2, start, weights)
        for rank in range(2)
    ]
    for one, *parts in zip(tail[:-1], *ranks):  # noqa: B905 - the last batch is filled up
        assert torch.equal(one.index, torch.cat([part.index for part in parts]))


@pytest.mark.parametrize(
    "weights",
    [
        [1.0] * 22,
        [0.0] * 23,
        [-1.0] + [1.0] * 22,
        [float("nan")] + [1.0] * 22,
        [float("inf")] + [1.0] * 22,
    ],
)
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ConfigError, match="expected 23 weights of images"):
        Batches(toy(), 5, seed=0).epoch(0, weights=torch.tensor(weights))


def test_another_seed_shares_the_memory():
    batches = Batches(toy(), 5, seed=1, augment="crop-flip")
    other = batches.keyed(2)
    assert other._images is batches._images
    alone = Batches(toy(), 5, seed=2, augment="crop-flip")
    assert all(same(a, b) for a, b in zip(other.epoch(1), alone.epoch(1), strict=True))
    assert batches.seed == 1


def test_read_only_arrays_are_taken_without_a_warning():
    data = toy()
    data.images.setflags(write=False)
    data.labels.setflags(write=False)
    assert len(list(Batches(data, 10, seed=0).epoch(0))) == 3


@given(
    size=st.integers(1, 40),
    batch=st.integers(1, 50),
    epoch=st.integers(0, 3),
    seed=st.integers(0, 5),
)
def test_every_image_comes_once_an_epoch(size, batch, epoch, seed):
    batches = Batches(toy(size, (1, 1, 1)), batch, seed=seed)
    sizes = [len(b.labels) for b in batches.epoch(epoch)]
    assert sizes == [batch] * (size // batch) + ([size % batch] if size % batch else [])
    assert len(sizes) == len(batches)
    assert sorted(indices(batches, epoch)) == list(range(size))


def test_seeds_and_epochs_shuffle_differently_and_repeat():
    orders = [
        indices(Batches(toy(), 4, seed=seed), epoch)
        for seed, epoch in ((0, 0), (0, 1), (1, 0), (0, 0))
    ]
    assert orders[0] == orders[3]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert orders[0] != sorted(orders[0])


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
@pytest.mark.parametrize("start", range(7))
def test_a_resumed_epoch_is_the_tail_of_the_whole(augment, start):
    batches = Batches(toy(), 4, seed=3, augment=augment)
    whole, tail = list(batches.epoch(2)), list(batches.epoch(2, start))
    assert len(tail) == len(whole) - start
    assert all(same(a, b) for a, b in zip(whole[start:], tail, strict=True))


@given(
    size=st.integers(1, 40),
    world=st.integers(1, 7),
    extra=st.integers(0, 12),
    chunks=st.integers(1, 4),
)
def test_ranks_share_every_chunk_of_a_global_batch(size, world, extra, chunks):
    """Together they have the images, the random numbers and, weighted, the means of one process, step by step."""
    data, batch_size = toy(size, (1, 1, 1)), world + extra

    def steps(**options):
        batches = Batches(data, batch_size, seed=0, augment="crop-flip", chunks=chunks, **options)
        for batch in batches.epoch(1):
            for chunk in batch.split(chunks):
                noise = chunk.draw(torch.randn, (3, len(chunk.labels)), images=1)
                yield chunk, noise, chunk.draw(torch.rand, chunk.labels.shape)

    alone = list(steps())
    ranks = [list(steps(rank=rank, world_size=world)) for rank in range(world)]
    assert {len(rank) for rank in ranks} == {len(alone)}
    for step, (whole, noise, throws) in enumerate(alone):
        seen, mean = set(), 0.0
        for part, its_noise, its_throws in (rank[step] for rank in ranks):
            first = 0 if part.share is None else part.share.first
            rows = slice(first, first + len(part.labels))
            assert torch.equal(part.index, whole.index[rows])
            assert torch.equal(part.images, whole.images[rows])  # cropped as by one process
            assert torch.equal(its_noise, noise[:, rows])
            assert torch.equal(its_throws, throws[rows])
            assert part.total == len(whole.labels)
            seen.update(range(first, first + len(part.labels)))
            mean += (1.0 if part.share is None else part.share.weight) * float(
                part.index.double().mean()
            )
        assert seen == set(range(len(whole.labels)))
        assert mean == pytest.approx(float(whole.index.double().mean()))
        assert max(len(rank[step][0].labels) for rank in ranks) <= -(-len(whole.labels) // world)


def test_a_generator_of_its_own_is_keyed_by_seed_epoch_step_and_rank_and_not_by_augmentation():
    def noises(**options):
        batches = Batches(toy(), 8, **{"seed": 0, "world_size": 2, **options})
        return [
            torch.randn(3, generator=b.generator).tolist() for e in (0, 1) for b in batches.epoch(e)
        ]

    plain = noises(rank=0)
    assert len({tuple(noise) for noise in (*plain, *noises(rank=1), *noises(rank=0, seed=1))}) == 18
    assert noises(rank=0, augment="crop-flip") == plain


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_crop_flip_is_the_per_image_recipe(dtype):
    images = torch.randint(1, 256, (64, 3, 9, 7), generator=torch.Generator().manual_seed(0)).to(
        dtype
    )
    found = crop_flip(images, torch.Generator().manual_seed(5))
    draw = torch.Generator().manual_seed(5)
    tops, lefts = (torch.randint(9, (64,), generator=draw).tolist() for _ in range(2))
    flips = torch.randint(2, (64,), generator=draw).tolist()
    assert (set(tops), set(lefts), set(flips)) == (set(range(9)), set(range(9)), {0, 1})
    assert found.dtype == dtype
    for image, out, top, left, flip in zip(images, found, tops, lefts, flips, strict=True):
        padded = torch.zeros(3, 17, 15, dtype=dtype)
        padded[:, 4:-4, 4:-4] = image
        crop = padded[:, top : top + 9, left : left + 7]
        assert torch.equal(out, crop.flip(2) if flip else crop)


def test_crop_flip_changes_with_epoch_and_step_and_place_in_the_batch():
    data = Dataset(
        "toy", "train", np.repeat(toy(1).images, 16, 0), np.zeros(16, np.int64), 1
    )  # one image 16 times
    runs = [
        batch.images
        for epoch in (0, 1)
        for rank in (0, 1)
        for batch in Batches(data, 8, seed=0, augment="crop-flip", rank=rank, world_size=2).epoch(
            epoch
        )
    ]
    assert not any(torch.equal(a, b) for i, a in enumerate(runs) for b in runs[:i])


@pytest.mark.parametrize(
    ("size", "parts", "chunks"), [(8, 4, 4), (9, 4, 4), (8, 1, 1), (3, 4, 0), (7, 2, 2)]
)
def test_split_cuts_consecutive_equal_batches_and_drops_the_rest(size, parts, chunks):
    [batch] = Batches(toy(size), size, seed=0).epoch(0)
    found = batch.split(parts)
    assert len(found) == chunks
    for i, part in enumerate(found):
        cut = slice(i * (size // parts), (i + 1) * (size // parts))
        assert torch.equal(part.images, batch.images[cut])
        assert torch.equal(part.labels, batch.labels[cut])
        assert torch.equal(part.index, batch.index[cut])
        assert part.generator is batch.generator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    image = pytest.importorskip("PIL.Image")
    root, rng = tmp_path_factory.mktemp("tree"), np.random.default_rng(0)
    for i in range(7):
        (root / f"n{i % 2}").mkdir(exist_ok=True)
        image.fromarray(rng.integers(0, 256, (40, 50, 3)).astype(np.uint8)).save(
            root / f"n{i % 2}" / f"{i}.png"
        )
    return ImageFolder(root, "toy", "train")


def test_a_folder_is_decoded_into_the_same_batches(folder):
    batches = Batches(folder, 3, seed=0)
    found = list(batches.epoch(0))
    assert sorted(indices(batches, 0)) == list(range(7))
    for batch in found:
        for image, label, i in zip(batch.images, batch.labels, batch.index, strict=True):
            assert np.array_equal(
                image.numpy(), folder.image(int(i)).astype(np.float32) / np.float32(255)
            )
            assert label == folder.labels[i]


@pytest.mark.parametrize("start", range(4))
def test_a_folder_resumes_and_augments_by_image_not_by_step(folder, start):
    batches = Batches(folder, 3, seed=0, augment="imagenet")
    whole, tail = list(batches.epoch(1)), list(batches.epoch(1, start))
    assert all(same(a, b) for a, b in zip(whole[start:], tail, strict=True))
    other = {int(i): x for b in Batches(folder, 2, seed=0, augment="imagenet").epoch(1)
             for i, x in zip(b.index, b.images, strict=True)}  # fmt: skip
    for batch in whole:
        assert all(
            torch.equal(other[int(i)], x) for i, x in zip(batch.index, batch.images, strict=True)
        )


def test_a_folder_left_early_ends_its_threads_and_a_bad_image_is_named(folder, tmp_path):
    import threading

    before = set(threading.enumerate())
    steps = Batches(folder, 1, seed=0, augment="imagenet").epoch(0)
    next(steps)
    steps.close()
    assert set(threading.enumerate()) <= before
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "bad.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"bad\.png"):
        list(Batches(ImageFolder(tmp_path), 1, seed=0).epoch(0))
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size >= 1, one image per rank, found 0"),
        ({"batch_size": 3, "world_size": 4}, "batch_size >= 4, one image per rank, found 3"),
        ({"world_size": 0}, "found rank 0 of 0"),
        ({"rank": 2, "world_size": 2}, "0 <= rank < world_size, found rank 2 of 2"),
        ({"rank": -1}, "found rank -1 of 1"),
        (
            {"augment": "crop_flip"},
            "augment is one of none, .* found 'crop_flip'; did you mean crop-flip",
        ),
        ({"augment": "imagenet"}, "augment 'imagenet' does not suit toy"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Batches(toy(), **{"batch_size": 4, "seed": 0, **options})


def test_settings_that_do_not_suit_a_folder_or_an_epoch_are_refused(folder):
    with pytest.raises(ConfigError, match="'crop-flip' does not suit toy"):
        Batches(folder, 2, seed=0, augment="crop-flip")
    for start in (-1, 7):
        with pytest.raises(ConfigError, match=f"start from 0 to 6 steps, found {start}"):
            Batches(toy(), 4, seed=0).epoch(0, start)


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_cuda_gives_the_same_images_and_never_holds_up_the_host(augment):
    expected = list(Batches(toy(), 4, seed=0, augment=augment).epoch(0))
    batches = Batches(toy(), 4, seed=0, augment=augment, device="cuda")
    list(batches.epoch(0))  # first use of the pinned memory and the kernels
    try:
        torch.cuda.set_sync_debug_mode("error")
        found = list(batches.epoch(0))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for a, b in zip(expected, found, strict=True):
        assert b.generator.device.type == "cuda"
        assert torch.equal(a.images, b.images.cpu())
        assert torch.equal(a.labels, b.labels.cpu())
        assert torch.equal(a.index, b.index.cpu())


@pytest.mark.cuda
def test_cuda_gives_the_same_folder_images(folder):
    for a, b in zip(*(Batches(folder, 3, seed=0, augment="imagenet", device=d).epoch(0) for d in ("cpu", "cuda")),
                    strict=True):  # fmt: skip
        assert torch.equal(a.images, b.images.cpu())
