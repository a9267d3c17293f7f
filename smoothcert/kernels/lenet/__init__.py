"""Triton kernels for LeNet. Only entry.py is meant for others; it says when they fit, and imports Triton when they do.

Each `*_kernels.py` has the device's side, and the module without the suffix the host's. It knows no other network.
"""
