"""What a setting may be, where it is one of a few words."""

from __future__ import annotations

from typing import Literal

NoiseMode = Literal["quantised", "exact", "float", "uniform", "laplace"]
Precision = Literal["auto", "float32", "tf32", "bfloat16", "float16"]
TrainingPrecision = Literal["tf32", "float32", "bfloat16"]
Kernels = Literal["auto", "off"]
AttackName = Literal["pgd", "ddn", "stein", "vanilla", "foolbox"]
