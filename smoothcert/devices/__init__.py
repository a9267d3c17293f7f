"""The machine: which device, whether kernels run on it, how it multiplies, what it says when memory runs out.

It knows nothing of networks, noise or attacks; all of them ask here instead of asking PyTorch in their own ways.
"""
