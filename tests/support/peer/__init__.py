"""An Event Hubs look-alike on the engine and the codec of Apache Qpid Proton.

The emulator and the receiver come from one project, so both may misread AMQP in the same way. This broker shares no
code with either of them: Proton reads and writes every frame and every value. It runs as a process, see `process`;
`wire` lists what it can do that Event Hubs seldom does and AMQP 1.0 allows.
"""
