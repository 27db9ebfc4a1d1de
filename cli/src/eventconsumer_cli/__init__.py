"""`kubectl eventconsumer`: what consumers do, for people, and what people do to consumers.

A command is a module in `commands/`: it asks the cluster (`kube/`), makes a view of the answers (pure), and prints it
(`output`). Nothing here imports operator, host or Spark job: what they say is read with the models of
`eventconsumer_api`, and what only a pod can reach is asked by a program in a pod.
"""
