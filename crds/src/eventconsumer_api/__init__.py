"""The contracts of the project: the EventConsumer resource, and the messages between operator, hosts and Spark jobs.

This package contains only data and pure functions: pydantic models, constants, and the schema generator. Operator,
host and Spark job import this package and never each other.
"""
