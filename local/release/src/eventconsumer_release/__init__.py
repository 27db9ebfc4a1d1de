"""Builds a release of one commit into a folder: the same commit gives the same bytes, whoever builds it and where.

Invariant: everything but the images is made from `git archive HEAD`, never from the working copy, and bears the
commit's time, no owner and uniform modes.
"""
