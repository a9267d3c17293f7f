"""Stores and published logs -> `Certificates`, with names and methods for the runs they are of.

It must not know what is computed from certificates or how they are shown.
"""
