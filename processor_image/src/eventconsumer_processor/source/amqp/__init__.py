"""An AMQP 1.0 receiver for Event Hubs: one connection for all partitions, events decoded straight into columns.

    codec    AMQP's types: values from bytes, and the bytes of what is sent
    events   messages to columns

The bytes come from strangers: whatever is wrong with them is a `FrameError`, and what is held for a peer is bounded.
"""
