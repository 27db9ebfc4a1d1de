"""An AMQP 1.0 receiver for Event Hubs: one connection for all partitions, events decoded straight into columns.

    codec          AMQP's types: values from bytes, and the bytes of what is sent
    performatives  the frames of a connection, a session and a link
    deliveries     messages as they came, together
    transfers      recognizing deliveries without decoding their heads
    wire           bytes to frames and back, on a socket
    connection     handshake, heartbeats: one peer
    session        windows, and the links of a connection
    baselink       what links of both directions share
    link, credit   deliveries of one partition, and how many may be on their way
    sender         messages to a service
    requests       questions to a service, and its answers
    messages       messages whole
    layout, learner  the layout of one message, and all messages that have it
    values, events   values of many messages, and their columns
    compiled, compiledcolumns  runs of deliveries, and their columns, by the compiled decoder where there is one
    tokens, cbs    signing in, and again before it expires
    management     what the hub says about itself
    pool           connections, and whether they are relied on
    hub, source    the protocols of `source.hub` on all of it

The peer is not trusted: invalid bytes raise `FrameError`, and the memory for a peer is limited.
"""
