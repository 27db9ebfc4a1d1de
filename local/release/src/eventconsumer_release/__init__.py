"""Builds a release of one commit into a folder: the same commit always gives the same bytes.

Invariant: all files except the images are built from `git archive HEAD`, never from the working copy, with the commit's
time, no owner and uniform modes.
"""
