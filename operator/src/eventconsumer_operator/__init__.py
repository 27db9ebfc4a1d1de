"""The operator: makes host pods and Spark applications of EventConsumer resources.

For one key the modules run in this order: `watch` puts it in the `workqueue`, `controller` takes it out, `reconcile`
does `load` -> `plan` -> `apply` -> `status`. The plan, the status and what they rest on (`observed`, `findings`,
`applications`, `podfailures`, `manifest`) are pure; `api` and `hosts` are the only doors to the outside. The errors are
drawn in `errors`.
"""
