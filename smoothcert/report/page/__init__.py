"""Tables and charts -> one HTML page, with images and with the commands that made each run.

It computes no measure, and nothing else in `report` may import it. It reads no data set: images are handed to it.
"""
