"""Deterministic simulation: real hosts on virtual time, against a container and a hub that fail in every way.

The host's code does its input and output only through protocols (`BlobStore`, `Hub`, `Source`), a clock and a random
number generator that it is given, and it waits only on the event loop. That is what makes it sans-IO: on the loop of
`loop.py`, with the protocols of `network.py`, the very classes that run in production run here, and nothing of a run
depends on threads, on the machine's clock or on its load. The same seed gives the same run.

    rules.py     what may happen: events, crashes, pauses, lost answers, late requests, retention, ...
    world.py     the container, the hub and the hosts that it happens to
    checker.py   what must hold, judged from the history of the container alone: the invariants S1-S8, L1-L3 and N1-N3
    driver.py    plays random rules from a seed, and makes failures short
    mutants.py   changes that break the protocol; the suite must notice each

Two drivers play the same rules: `python -m tests.simulation --steps N --seed S` (long), and a hypothesis state machine
(`test_machine.py`).
"""
