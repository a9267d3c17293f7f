"""What any network gets, by PyTorch alone: BatchNorm folded, layers fused, layouts that the device likes.

It looks at layers and never at the name of a network, and knows nothing of Triton.
"""
