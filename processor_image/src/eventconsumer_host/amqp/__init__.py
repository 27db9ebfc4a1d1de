"""An AMQP 1.0 receiver for Event Hubs: one connection for all partitions, events decoded straight into columns.

    codec        AMQP types: values from bytes, and the bytes of values
    frames       the frames of a connection, a session and a link
    wire         bytes from a socket to frames and deliveries, and frames to the socket
    websocket    the same bytes in WebSocket frames
    connection   handshake, heartbeats, the end
    session      windows, and the links of a connection
    link         the base of all links, and the receiver with its credit
    messages     single messages
    requests     requests to a service, and their responses
    cbs          tokens, and their renewal
    management   properties of the hub and its partitions
    compiled     the compiled decoder, which is optional
    decode       messages to columns
    hub, source  the protocols of `source.hub`, and the connections of a hub

The peer is not trusted: invalid bytes raise `FrameError`, and the memory for a peer is limited.
"""
