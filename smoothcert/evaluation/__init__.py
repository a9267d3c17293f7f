"""What is done with trained and certified runs: attacks, adversarial paths, re-analysis of counts, whole tables.

It builds on certification and report; nothing but the command line may import it.
"""
