"""Keyed noise: a function of (seed, input, stage, sample) and of nothing else, with the law that certificates assume.

Its kernels decide which numbers are drawn, so no setting switches them off. It knows nothing of networks or of votes.
"""
