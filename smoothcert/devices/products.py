"""PyTorch's settings of products, which are the whole process's: set for a while, and given back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def tf32_products() -> bool | None:
    """Whether products of float32 may run in TF32 (or less); None where settings are mixed."""
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # the caller uses PyTorch's newer setting, and the two do not mix
        return {"tf32": True, "ieee": False}.get(torch.backends.cuda.matmul.fp32_precision)


@contextmanager
def float32_products(tf32: bool) -> Iterator[None]:
    """Matrix products of float32 in TF32, or in full."""
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:
        matmul = torch.backends.cuda.matmul
        newer, matmul.fp32_precision = matmul.fp32_precision, "tf32" if tf32 else "ieee"
        try:
            yield
        finally:
            matmul.fp32_precision = newer
        return
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def full_sums() -> Iterator[None]:
    """Products of half precision are added up in float32, on every GPU."""
    matmul = torch.backends.cuda.matmul
    before = (
        matmul.allow_fp16_reduced_precision_reduction,
        matmul.allow_bf16_reduced_precision_reduction,
    )
    matmul.allow_fp16_reduced_precision_reduction = (
        matmul.allow_bf16_reduced_precision_reduction
    ) = False
    try:
        yield
    finally:
        (
            matmul.allow_fp16_reduced_precision_reduction,
            matmul.allow_bf16_reduced_precision_reduction,
        ) = before
