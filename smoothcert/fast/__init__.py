"""The same network, faster: folded, fused and laid out for the device that runs it."""
