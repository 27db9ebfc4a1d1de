"""Generators of documentation pages, figures and pictures from the code."""
