"""The self-test passes the streams we use, and catches broken ones."""

import pytest
import torch

from smoothcert.errors import ConfigError
from smoothcert.noise.selftest import selftest_noise
from smoothcert.noise.streams import NoisyCopies

VALUES = 2**22
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def failed(**settings):
    return {
        check.name for check in selftest_noise(**{"values": VALUES, **settings}) if not check.ok
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["exact", "uniform", "laplace", "float"])
def test_our_streams_pass(mode, device):
    checks = selftest_noise(mode, device=device, values=VALUES)
    assert [str(check) for check in checks if not check.ok] == []
    names = {check.name for check in checks}
    assert {
        "mean",
        "variance",
        "Kolmogorov-Smirnov",
        "beyond 4 sigma",
        "beyond 5 sigma",
        "bits of the noise",
    } <= names
    assert ("bits of the uniform integers" in names) == (mode != "float")
    assert str(checks[0]).startswith("ok     mean")


@pytest.mark.parametrize("sigma", [0.12, 1.0])
def test_other_noise_levels_pass(sigma):
    assert not failed(sigma=sigma, values=2**20)


class Broken(NoisyCopies):
    """A stream of which the black image's noise, in units of sigma, is damaged on the way."""

    def take(self, first, last):
        return self.damage(super().take(first, last) / self._sigma) * self._sigma


def test_a_repeated_block_is_caught():
    class Repeats(NoisyCopies):
        def take(self, first, last):
            shift = 0 if first < 1024 else 512 * 2  # the third block of 512 is the first one again
            return super().take(first - shift, last - shift)

    assert "repeated samples" in failed(copies=Repeats, values=9 * 784 * 2048)


def test_streams_shared_between_stages_are_caught():
    class Shared(NoisyCopies):
        def __init__(self, *args, stage, **settings):
            super().__init__(*args, stage="estimation", **settings)

    assert {"repeated samples", "correlation of stages and inputs"} <= failed(copies=Shared)


@pytest.mark.parametrize("cut", [3.9, 4.5])
def test_truncated_tails_are_caught(cut):
    class Truncated(Broken):
        def damage(self, z):
            return z.clamp(-cut, cut)

    values = VALUES if cut < 4 else 2**25
    assert f"beyond {4 if cut < 4 else 5} sigma" in failed(copies=Truncated, values=values)


def test_a_leaning_bit_is_caught():
    class Leaning(Broken):
        def damage(self, z):
            step = (z * 255 * self._sigma).round().long()
            step[::50] |= 1  # 2 % of the samples have only odd steps
            return step.float() / (255 * self._sigma)

    assert "bits of the noise" in failed(copies=Leaning)


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (lambda z: z + 0.003, "mean"),
        (lambda z: z * 1.003, "variance"),
        (lambda z: z.sort(dim=3).values, "correlation of neighbouring values"),
        (lambda z: (z + z.roll(1, 0)) / 2**0.5, "correlation of successive samples"),
        (lambda z: torch.where(z.abs() < 0.03, z.abs(), z), "Kolmogorov-Smirnov"),
    ],
)
def test_other_damage_is_caught(damage, name):
    class Damaged(Broken):
        pass

    Damaged.damage = staticmethod(damage)
    assert name in failed(mode="float", copies=Damaged)


def test_too_few_values_are_refused():
    with pytest.raises(ConfigError, match="needs at least"):
        selftest_noise(values=1000)
