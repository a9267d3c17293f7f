"""The same network, faster: for sampling (prepare.py) and for training (trainable.py).

registry.py is the one list of the networks that have kernels of their own; `generic` is what all others get. Nothing
here knows what is certified or learnt: no bounds, methods or stores.
"""
