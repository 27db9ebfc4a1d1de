"""The program `eventconsumer` of the image: its commands, and how each opens the consumer that it works on.

`cli` is the program. `commands` changes and shows leases, checkpoints, files and dead letters, `inspect` reads a
consumer with the code of the host, `certify` checks real services, and `access` opens a consumer for the audit.
"""
