"""What runs leave on disk: run folders and result stores, the settings that they belong to, and how far they are.

It knows files, locks and manifests, and needs no PyTorch to read them. It must not know how anything is trained,
certified or drawn.
"""
