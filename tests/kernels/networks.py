"""Networks as they are after training, and what tests of kernels ask of them."""

import torch
from torch import nn

from smoothcert.kernels.generic.folding import fold
from smoothcert.kernels.generic.fusing import fuse

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def lived_in(model, seed=0):
    """BatchNorms with statistics and weights as after training; fresh ones do nothing, which hides every mistake."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, NORMS):
                if module.running_mean is not None:
                    module.running_mean.normal_(0, 0.3, generator=generator)
                    module.running_var.uniform_(0.3, 3, generator=generator)
                if module.weight is not None:
                    module.weight.uniform_(-1.5, 1.5, generator=generator)
                    module.bias.normal_(0, 0.3, generator=generator)
    return model.eval()


def images(*shape, seed=1):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def count(net, *kinds):
    return sum(type(module) in kinds for module in net.modules())


@torch.no_grad()
def assert_equal_answers(model, x, norms_left=0):
    """Folded, then also fused: close to the plain network in float32, and in float64 far closer than float32 rounds."""
    expected = model(x)
    for rewrite in (lambda net: net, fuse):
        net = rewrite(fold(model, x))
        torch.testing.assert_close(
            net(x), expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max())
        )
        assert count(net, *NORMS) == norms_left
    exact = fuse(fold(model.double(), x.double()))
    torch.testing.assert_close(exact(x.double()), model(x.double()), rtol=1e-10, atol=1e-10)
    model.float()
    return net


class Trap(nn.Module):
    """A network given by its forward as a function of (self, x)."""

    def __init__(self, forward, **modules):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        for name, module in modules.items():
            self.add_module(name, module)
        self.rule = forward

    def forward(self, x):
        return self.rule(self, x)


def with_statistics(model, seed=0):
    """BatchNorms as after training: none of them near the identity."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor, low in (
                (module.weight, 0.5),
                (module.bias, -0.5),
                (module.running_mean, -0.5),
            ):
                tensor.data = low + torch.rand(tensor.shape, generator=generator)
            module.running_var = 0.5 + torch.rand(module.running_var.shape, generator=generator)
    return model.eval()
