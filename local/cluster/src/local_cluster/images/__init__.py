"""Build the project's images without a container engine and without a registry.

Invariant: an image's tag is a hash of everything that goes into it (the Dockerfile, the files it copies, the base),
so that an image which exists is current, an unchanged one is neither built nor imported again, and a pod that runs an
old one is seen by its tag.
"""
