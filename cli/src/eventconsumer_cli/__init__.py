"""`kubectl eventconsumer`: inspect and control consumers.

A command is a module in `commands/`: it queries the cluster (`kube/`), builds a view of the result (pure), and prints
it (`output`). This package imports neither operator, host nor Spark job: it parses their reports with the models of
`eventconsumer_api`, and a program in a pod queries data that only a pod can reach.
"""
