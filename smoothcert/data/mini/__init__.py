"""mnist-mini: a small part of MNIST that is always at hand (see NOTICE.md); made by `make.py`."""
