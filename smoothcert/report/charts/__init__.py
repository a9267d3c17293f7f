"""Certificates and measures -> drawings: SVG of our own, and files for papers by matplotlib.

It computes no measure itself, and must not know tables or the page that a drawing stands in.
"""
