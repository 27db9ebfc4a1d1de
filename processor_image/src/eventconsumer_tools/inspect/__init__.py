"""Reads one consumer from storage and the hub, with the code that hosts use. The tools print what is read here."""
