"""A small Azure Event Hubs for laptops and tests, speaking AMQP 1.0 over plain asyncio.

Layers, each importing only those above it:

    errors, values      the error tree; Python types for AMQP's types
    codec, messages     bytes <-> values; a message cut into sections without decoding it
    performatives,
    framing             frames <-> dataclasses; the incremental frame reader
    hub, positions,
    keys, tokens,
    readers             PURE: partition logs, selector filters, key hash, SAS and JWT checks, epoch rules
    broker, faults      the namespace with its links, and the faults that tests inject
    links, nodes,
    session, connection the protocol as a state machine without sockets: bytes in, bytes out
    server, http, admin sockets, timers, the admin side over HTTP
    cli                 the command

No module imports an Azure library: the client under test must not also implement the server's protocol.
"""
