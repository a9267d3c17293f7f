"""Keyed noise: a function of (seed, input, stage, sample), with the law that certificates assume.

Its kernels decide which numbers are drawn, so no setting switches them off. It must not know networks or votes.
"""
