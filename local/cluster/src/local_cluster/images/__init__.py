"""Build the project's images without a container engine and without a registry.

Invariant: an image's tag is a hash of all its inputs (the Dockerfile, the copied files, the base), so that an existing
image is current, an unchanged image is neither built nor imported again, and a pod with an old image is recognised by
the tag.
"""
