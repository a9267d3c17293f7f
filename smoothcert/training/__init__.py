"""Training: epochs, optimiser steps, soft labels, several processes, and going on after a crash.

It must not know what a method computes (it asks for a loss), or how the trained network is certified and reported; only
soft labels count votes as certification does.
"""
