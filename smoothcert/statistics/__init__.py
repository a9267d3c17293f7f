"""Counts of noisy answers -> confidence bounds, radii and certificates; fixed or sequential numbers of samples.

NumPy and SciPy only. It must not know networks, noise generators, data sets or stores.
"""
