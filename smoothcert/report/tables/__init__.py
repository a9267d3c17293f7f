"""Measures -> tables of printed cells, as text, Markdown, LaTeX or CSV, with notes on what cannot be compared.

It computes no measure but the means of corruption benchmarks, and must not know the page that a table stands in.
"""
