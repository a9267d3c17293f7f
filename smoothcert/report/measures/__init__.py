"""`Certificates` -> numbers: accuracy, radius, confidence, differences between runs and to published values.

It must not know how numbers are printed or drawn: no tables, charts or pages.
"""
