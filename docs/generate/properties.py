"""docs/reference/properties.md, from the code: `python -m docs.generate.properties > docs/reference/properties.md`."""

from eventconsumer_api.spec.spark_conf import ALLOWED, Form

HEAD = """\
# Spark properties

Generated from the code by `python -m docs.generate.properties`. These are the properties that
`spec.spark.application.conf` may set, with the form of the value. All others are refused at `kubectl apply`: they could
change the code, the place, the identity or the log of an application. Sizes, cores and the number of executors have
fields of [their own](eventconsumer.md).

```yaml
spec:
  spark:
    application:
      conf:
        spark.sql.shuffle.partitions: "64"
        spark.sql.files.maxPartitionBytes: 64m
        spark.sql.session.timeZone: Europe/Berlin
```

The form may be narrower than what Spark accepts: enumerations are in the case of letters shown here. A program of your
own can set other properties of a session, such as `spark.conf.set("spark.sql.legacy.allowHashOnMapType", "true")`.

| property | value |
|---|---|
"""


def page() -> str:
    """The page."""
    return HEAD + "".join(_row(name, form) for name, form in sorted(ALLOWED.items()))


def _row(name: str, form: Form) -> str:
    return f"| `{name}` | {form.text} |\n"


if __name__ == "__main__":
    print(page(), end="")
