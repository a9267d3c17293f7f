"""The stream of a transformer: linear layers add to it, and LayerNorms read it.

A product of matrices is added to the stream by the product's own kernel, in the stream's memory. Only biases remain,
which are the same for all tokens: each LayerNorm adds those of all layers before it. So the stream is read and written
once less for each layer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from smoothcert.kernels.generic.folding import called, put, shape
from smoothcert.kernels.generic.fusing import summands
from smoothcert.kernels.layers.modules import LinearInto, TokenNorm

_WIDEST = 4096  # a token


def token_norm(net: fx.GraphModule, node: object) -> nn.LayerNorm | None:
    """The LayerNorm that a node calls, if it is over the last dimension alone, and plain."""
    norm = called(net, node)
    plain = isinstance(norm, nn.LayerNorm) and type(norm) is nn.LayerNorm and len(norm.normalized_shape) == 1
    return norm if isinstance(norm, nn.LayerNorm) and plain and norm.normalized_shape[0] <= _WIDEST else None


def put_streams(net: fx.GraphModule) -> int:
    """How many linear layers of the network, which is changed in place, add to a stream now, and norms read one."""
    order = {node: place for place, node in enumerate(net.graph.nodes)}
    sums: dict[fx.Node, tuple[fx.Node, fx.Node]] = {}  # the linear layer and the stream before it, last sums first
    for node in reversed(net.graph.nodes):
        if (found := _terms(net, node, sums, order)) is not None:
            sums[node] = found
    offsets: dict[fx.Node, Tensor] = {}
    norms = 0
    for node, (product, stream) in reversed(sums.items()):
        linear: Any = called(net, product)
        bias = linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias.detach()
        offset = offsets[node] = bias.float() + offsets.get(stream, torch.zeros_like(bias, dtype=torch.float32))
        put(net, node, LinearInto(linear))
        node.args, node.kwargs = (product.args[0], stream), {}
        net.graph.erase_node(product)
        for user in list(node.users):
            if (norm := token_norm(net, user)) is not None:
                put(net, user, TokenNorm(norm, keep=False, offset=offset))
                norms += 1
    return len(sums) + norms


def _terms(
    net: fx.GraphModule, node: fx.Node, sums: dict[fx.Node, tuple[fx.Node, fx.Node]], order: dict[fx.Node, int]
) -> tuple[fx.Node, fx.Node] | None:
    """The linear layer and the stream that a node adds up, if nobody but norms and the next such sum sees either."""
    goes_on = [user for user in node.users if user in sums and sums[user][1] is node]
    if any(token_norm(net, user) is None for user in node.users if user not in goes_on):
        return None
    for product, stream in summands(node) if len(summands(node)) == 2 else []:  # not in place
        nodes = isinstance(stream, fx.Node) and type(called(net, product)) is nn.Linear and len(product.users) == 1
        # a sum is new memory, in which the next one may be made when all others have read it
        if not nodes or len(summands(stream)) != 2 or not shape(product) == shape(stream) == shape(node):
            continue
        if all(user is node or (token_norm(net, user) and order[user] < order[node]) for user in stream.users):
            return product, stream
    return None
