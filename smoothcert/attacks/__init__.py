"""Attacks on smoothed classifiers, as pure functions on batches whose noise the caller drew.

A model is only something to call and differentiate. Attacks must not know the methods that train with them, or the
stores that keep what they find. Fused steps are the same formulas in fewer launches (`--kernels off` does without).
"""
