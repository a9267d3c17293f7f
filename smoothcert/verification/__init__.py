"""Results that anyone can check: stores recomputed and sampled again, and runs packed into one file for others.

What is recomputed here is recomputed by other code than made it. It must not know how a store is filled or drawn.
"""
