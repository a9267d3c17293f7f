"""A CPU that rounds otherwise in every batch size: PYTHONPATH=tests/other_cpu, then the tests.

Python imports this file by its name at its start, so that processes of a test round alike. The
outputs of linear layers and convolutions in float32 move by up to three last bits, by how many rows
the batch has; OTHER_CPU is a number that chooses among such machines. Some commands must not import
PyTorch, so it waits until that is imported. Scripted networks cannot be compiled on this machine:
leave their test out by -k "not scripted".
"""

import importlib.util
import os
import sys

SEED = int(os.environ.get("OTHER_CPU", "0"))


def rounded_otherwise(function):
    import torch

    def run(x, *args, **settings):
        out = function(x, *args, **settings)
        if type(out) is not torch.Tensor or out.dtype != torch.float32 or out.dim() < 2:
            return out
        moved = out * (1 + ((out.shape[0] * 7919 + SEED) % 7 - 3) * 2.0**-23)
        return torch.where(out == out.round(), out, moved)  # sums of whole numbers are exact

    return run


class Finder:
    """Changes torch.nn.functional when it is imported."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "torch.nn.functional":
            return None
        sys.meta_path.remove(cls)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            for layer in ("linear", "conv2d"):
                setattr(module, layer, rounded_otherwise(getattr(module, layer)))

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder)
