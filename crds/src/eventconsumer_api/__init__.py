"""The contracts of the project: the EventConsumer resource, and what operator, hosts and Spark jobs say to each other.

Everything here is data and pure functions: pydantic models at the edges, constants, and the schema generator. Operator,
host and Spark job import this package and never each other.
"""
