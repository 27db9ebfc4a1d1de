"""Chaos of every part on the local cluster, and a check from storage alone that no event is missing or there twice.

`schedule` decides at what times which faults happen (pure), `faults` is their table, `stage` acts on the cluster,
`campaign` runs the schedule and undoes each fault, `load` publishes and observes, `logs` explains log entries,
`verifier` compares ids, `report` prints. `python -m tests.chaos --help` shows the options.
"""
