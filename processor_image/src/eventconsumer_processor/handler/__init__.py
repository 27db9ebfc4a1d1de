"""User code: loading it, giving it events, and dead letters for events that it cannot process."""
