"""Layers that many networks have, as kernels: what a network without kernels of its own gets on a GPU.

PyTorch and its libraries keep the products of matrices, which they do well. These are the passes over memory between
them, and the first convolution, whose few channels suit no library.
"""
