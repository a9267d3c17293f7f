"""Triton kernels for the CIFAR ResNets. Only entry.py is meant for others; it imports Triton when the kernels fit.

Each `*_kernels.py` has the device's side, and the module without the suffix the host's. It knows no other network.
"""
