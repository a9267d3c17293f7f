"""What runs leave on disk: the run folder, result stores, whose they are, and how far they are.

Knows files, locks and manifests, and needs no PyTorch to read them. Must not know how anything is trained, certified or
drawn.
"""
