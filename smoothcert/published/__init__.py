"""What the papers print: their tables as data, which run belongs to which row, and the verdict on ours beside theirs.

It must not know how a row is made again, and imports no PyTorch. JSON files in tables/ are the only place where
published values live.
"""
