"""One EventConsumer: what exists for it, the names of its children, and the pods that they run."""
