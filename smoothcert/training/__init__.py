"""Training: epochs, optimiser steps, soft labels, several processes, and going on after a crash.

It must not know what a method computes (it asks for a loss), or how a trained network is reported. From certification
it takes only the counting of votes, for soft labels.
"""
