"""In a process of its own: what writers, readers and documentation make of columns that were added to the table.

Only the table is changed, before anything that is made of it is imported. The values of the columns are those that a
source would give.
"""

import io
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from eventconsumer_api.wire import file_columns
from eventconsumer_api.wire.file_columns import Column

ITEMS = {
    "type": "array",
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "sku", "type": "string", "nullable": True, "metadata": {}},
            {"name": "price", "type": "decimal(10,2)", "nullable": True, "metadata": {}},
        ],
    },
    "containsNull": True,
}
ADDED = (
    Column("subject", "string", "Added.", system_property="subject", statistics=True, replaceable=True),
    Column("items", ITEMS, "Nested."),
    Column("length", "long", "Derived.", system_property="x-length"),
)


def made() -> Mapping[str, Any]:
    """What was made, by place."""
    file_columns.COLUMNS = (*file_columns.COLUMNS, *ADDED)

    import fastavro
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from docs.generate.columns import page
    from eventconsumer_api.v1alpha1 import HandlerMode
    from eventconsumer_host.handler.rows import rows_of
    from eventconsumer_host.sink import avro, parquet
    from eventconsumer_host.source.batch import DERIVED, EventBatch, columns_of
    from eventconsumer_host.source.rows import EventRows, FlatMap
    from eventconsumer_host.table.delta import new_table
    from eventconsumer_spark import EVENT_SCHEMA

    DERIVED["length"] = lambda columns: pc.binary_length(columns["body"]).cast(pa.int64())
    rows = EventRows([7], ["70"], [0], ["key"], [b"x"], FlatMap([0]), FlatMap([0]), [None], [None], [None])
    values = columns_of(rows) | {"subject": ["s"], "items": [[{"sku": "a", "price": None}]]}
    batch = EventBatch.of_columns(values)
    changed = pa.table({"sequence_number": pa.array([7], pa.int64()), "subject": ["new"], "body": [b"longer"]})
    handled = rows_of(changed, batch, HandlerMode.TRANSFORM)
    assert handled is not None
    table = pq.read_table(pa.BufferReader(b"".join(parquet.encode([handled], "0", {}))))
    record = next(iter(fastavro.reader(io.BytesIO(b"".join(avro.encode([batch], "0", {}))))))
    metadata = json.loads(new_table("id", datetime.now(UTC)).splitlines()[2])["metaData"]
    return {
        "parquet": {name: str(table.schema.field(name).type) for name in table.column_names},
        "handled": table.select(["subject", "items", "length"]).to_pylist()[0],
        "avro": record["SystemProperties"],
        "delta": [field["name"] for field in json.loads(metadata["schemaString"])["fields"]],
        "bounds": metadata["configuration"]["delta.dataSkippingStatsColumns"],
        "spark": {field.name: field.dataType.simpleString() for field in EVENT_SCHEMA},
        "page": page(),
    }


if __name__ == "__main__":
    json.dump(made(), sys.stdout)
