"""Attacks on smoothed classifiers, as pure functions on batches whose noise the caller drew.

They know a model only as something to call and differentiate; methods that train with them, and stores that keep what
they found, are elsewhere. The fused steps are the same formulas in fewer launches (`--kernels off` does without).
"""
