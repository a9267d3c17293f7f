"""PREDICT and CERTIFY: network and image -> counts under noise -> certificates, for one image or a whole data set.

It takes networks, noise, bounds and stores from their own packages. It must not know how a network was trained, or how
certificates are reported.
"""
