"""Measurements on real processes; run by hand, each a program of its own."""
