"""Attacks on a default installation, one module for each attacker: what each one has, and tries to gain.

An attack is a function that plays the attack against the real parts and returns an `Outcome`. Its test asserts that a
control refuses the attack, and then plays the same attack without the control, or with the right granted, and asserts
that it gains: otherwise the attack proves nothing. Each attack is a row of docs/security.md.

Attacks on built manifests or on processes belong to `make test`, those that need the cluster have the mark `long`.

| module | attacker |
|---|---|
| `test_tenant`, `test_tenant_*`, `test_driver_environment` | a user with the role eventconsumer-editor alone |
| `test_tenant_plugin` | a user with the role edit in another namespace |
| `test_host` | a host that was taken over |
| `test_driver` | a Spark driver that was taken over |
| `test_container_writer` | a writer of the container with the files |
| `test_table_writer` | a writer of the Delta table |
| `test_stranger` | any other pod of the cluster |
| `test_producer` | a sender of events |
| `test_log_reader` | a reader of logs |
"""
