"""Which inputs of a data set a certification or an attack is about, and which of them this process takes."""

from __future__ import annotations

from dataclasses import dataclass

from smoothcert.errors import ConfigError


@dataclass(frozen=True)
class Selection:
    """From `start`, every `every`-th input, at most `max` of them; of these, shard i of N takes each N-th.

    Without a shard (None), this process takes whatever no other process has taken.

    >>> from smoothcert import Selection
    >>> Selection(every=20, max=3).indices(10_000, of="mnist (test)")
    [0, 20, 40]
    """

    start: int = 0
    """first image"""
    every: int = 1
    """take every k-th image"""
    max: int | None = None
    """at most this many images"""
    shard: int | None = 0
    shards: int = 1

    def __post_init__(self) -> None:
        for name, least in (("start", 0), ("every", 1), ("max", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"{name} must be at least {least}, found {value}")
        if self.shard is not None and not 0 <= self.shard < self.shards:
            raise ConfigError(f"a shard is i/N with 0 <= i < N, found {self.shard}/{self.shards}")

    @property
    def share(self) -> str:
        """As it is given on the command line."""
        return "auto" if self.shard is None else f"{self.shard}/{self.shards}"

    def indices(self, size: int, of: str) -> list[int]:
        """All inputs of the set, whatever the shard; `of` names the data of that size in the error if there is none."""
        found = list(range(self.start, size, self.every))[: self.max]
        if not found:
            raise ConfigError(f"start={self.start} leaves no input: {of} has {size}")
        return found

    def mine(self, indices: list[int]) -> list[int]:
        """This shard's part of all inputs, done or not: so shards that start at different times take disjoint ones."""
        return indices if self.shard is None else indices[self.shard :: self.shards]
