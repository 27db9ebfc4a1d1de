"""Commands for people and for the kubectl plugin: they look at one consumer, and put its checkpoints in place."""
