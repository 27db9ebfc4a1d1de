"""The operator: creates host pods and Spark applications for EventConsumer resources.

A key passes through the modules in this order: `kube.watch` adds it to `kube.workqueue`, `controller` takes it out, and
`reconcile` runs load (`resource`) -> plan (`plan`, `spark`) -> apply (`apply`) -> status (`conditions`). `plan`,
`conditions` and most of `resource` and `spark` are pure; `kube.api`, `resource.hosts` and `fleet.messages` are the only
modules that communicate with others. `errors` has the hierarchy of errors.
"""
