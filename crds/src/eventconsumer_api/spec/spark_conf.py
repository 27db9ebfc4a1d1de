"""The Spark properties that a user may set, and the forms of their values.

A property can name a class to load, a file to fetch, an address, a service account, or a folder of another resource; it
can also switch off the redaction of logs. Permission to create an EventConsumer must not grant these. So each allowed
property is listed with the form of its value: it affects speed, memory or the behavior of SQL and Delta, and nothing
else. A form is a regular expression over the whole value, in the syntax that Python and RE2, the engine of the API
server, have in common. No form contains a dollar: Kubernetes expands `$(NAME)` in arguments and in variables of
executor pods, to which Spark copies properties, and Spark expands `${env:NAME}`.

A form may be narrower than what Spark accepts, and is never wider: Spark 4.1 starts with a wrong value of `spark.sql.*`
and hangs at the first query. Source of names and types: `ConfigEntry.knownConfigs` of Spark 4.1 and Delta 4.4, and for
`spark.databricks.delta.properties.defaults.*` the table properties of Delta (docs.delta.io/table-properties).
tests/integration/spark/test_properties.py compares them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

VALUE_MAX = 128
"""Maximum length of a value, characters."""


@dataclass(frozen=True)
class Form:
    """The form of a value.

    Attributes:
        text: The form in words, as in "use ...".
        pattern: Regular expression that the whole value matches.
        edges: The least and the greatest value and others at the edges, for tests against Spark.
    """

    text: str
    pattern: str
    edges: tuple[str, ...]

    def fits(self, value: str) -> bool:
        """Whether a value has this form."""
        return len(value) <= VALUE_MAX and re.fullmatch(self.pattern, value) is not None


def one_of(*values: str) -> Form:
    """The form of an enumeration."""
    return Form(f"one of {', '.join(values)}", "|".join(map(re.escape, values)), values)


_SIZE = "[1-9][0-9]{0,8}([bB]|[kKmMgG][bB]?)?"
_TIME = "[1-9][0-9]{0,5}(ms|s)?|[1-9][0-9]{0,3}(m|min)|[1-9][0-9]?h"
_SIZE_TEXT = "a size such as 64m or 1g, of at most nine digits"

BOOLEAN = one_of("true", "false")
COUNT = Form("a whole number from 1 to 999999999", "[1-9][0-9]{0,8}", ("1", "999999999"))
COUNT_OR_ZERO = Form("a whole number from 0 to 999999999", "0|[1-9][0-9]{0,8}", ("0", "1", "999999999"))
PARTITIONS = Form("a whole number from 1 to 99999", "[1-9][0-9]{0,4}", ("1", "99999"))
FEW = Form("a whole number from 1 to 999", "[1-9][0-9]{0,2}", ("1", "999"))
LEVEL = Form("a whole number from 1 to 22", "[1-9]|1[0-9]|2[0-2]", ("1", "22"))
COLUMNS = Form("a whole number from 0 to 9999, or -1 for all", "-1|0|[1-9][0-9]{0,3}", ("-1", "0", "9999"))
BYTES = Form("a number of bytes without a unit, of at most twelve digits", "[1-9][0-9]{0,11}", ("1", "9" * 12))
SIZE = Form(_SIZE_TEXT, _SIZE, ("1", "1b", "512k", "64MB", "999999999g"))
SIZE_OR_ZERO = Form(f"{_SIZE_TEXT}, or 0", f"0|{_SIZE}", ("0", "1m", "999999999g"))
SIZE_OR_OFF = Form(f"{_SIZE_TEXT}, or -1 for never", f"-1|{_SIZE}", ("-1", "10MB", "999999999g"))
BUFFER = Form(
    "a size from 1k to 999m, such as 64k",
    "[1-9][0-9]{0,4}[kK][bB]?|[1-9][0-9]{0,2}[mM][bB]?",
    ("1k", "99999KB", "999m"),
)
MESSAGE = Form("a whole number from 1 to 1999, MiB", "[1-9][0-9]{0,2}|1[0-9]{3}", ("1", "999", "1999"))
TIME = Form(
    "a time such as 500ms, 30s, 5m or 1h, of at most 999999s, 9999m or 99h", _TIME, ("1ms", "999999s", "9999min", "99h")
)
FRACTION = Form(
    "a number between 0 and 1 such as 0.75, with at most four decimals",
    "0[.][0-9]{0,3}[1-9]",
    ("0.0001", "0.5", "0.9999"),
)
FACTOR = Form(
    "a number from 1 to 9999 such as 1.5, with at most four decimals",
    "[1-9][0-9]{0,3}([.][0-9]{1,4})?",
    ("1", "1.5", "9999.9999"),
)
TIME_ZONE = Form(
    "a time zone such as UTC, Europe/Berlin or +02:00",
    "UTC|GMT|[A-Z][A-Za-z]{1,19}/[A-Z][A-Za-z_-]{1,29}(/[A-Z][A-Za-z_]{1,19})?|[+-](0[0-9]|1[0-7]):[0-5][0-9]",
    ("UTC", "GMT", "Europe/Berlin", "America/Port-au-Prince", "America/Argentina/Buenos_Aires", "+17:59", "-00:30"),
)
COLUMN = Form("a name of letters, digits and underscores", "[A-Za-z_][A-Za-z0-9_]{0,63}", ("_corrupt_record", "a"))
_REBASE = one_of("EXCEPTION", "LEGACY", "CORRECTED")

_NAMES: tuple[tuple[Form, str], ...] = (
    (
        BOOLEAN,
        """
        spark.databricks.delta.autoCompact.enabled
        spark.databricks.delta.checkLatestSchemaOnRead
        spark.databricks.delta.delete.deletionVectors.persistent
        spark.databricks.delta.dynamicPartitionOverwrite.enabled
        spark.databricks.delta.history.metricsEnabled
        spark.databricks.delta.merge.deletionVectors.persistent
        spark.databricks.delta.merge.optimizeInsertOnlyMerge.enabled
        spark.databricks.delta.merge.optimizeMatchedOnlyMerge.enabled
        spark.databricks.delta.merge.repartitionBeforeWrite.enabled
        spark.databricks.delta.optimize.repartition.enabled
        spark.databricks.delta.optimizeMetadataQuery.enabled
        spark.databricks.delta.optimizeWrite.enabled
        spark.databricks.delta.properties.defaults.appendOnly
        spark.databricks.delta.properties.defaults.autoOptimize.autoCompact
        spark.databricks.delta.properties.defaults.autoOptimize.optimizeWrite
        spark.databricks.delta.properties.defaults.checkpoint.writeStatsAsJson
        spark.databricks.delta.properties.defaults.checkpoint.writeStatsAsStruct
        spark.databricks.delta.properties.defaults.enableChangeDataFeed
        spark.databricks.delta.properties.defaults.enableDeletionVectors
        spark.databricks.delta.properties.defaults.enableRowTracking
        spark.databricks.delta.replaceWhere.constraintCheck.enabled
        spark.databricks.delta.replaceWhere.dataColumns.enabled
        spark.databricks.delta.retentionDurationCheck.enabled
        spark.databricks.delta.schema.autoMerge.enabled
        spark.databricks.delta.stats.collect
        spark.databricks.delta.stats.skipping
        spark.databricks.delta.update.deletionVectors.persistent
        spark.databricks.delta.vacuum.lite.enabled
        spark.databricks.delta.vacuum.parallelDelete.enabled
        spark.excludeOnFailure.application.enabled
        spark.excludeOnFailure.application.fetchFailure.enabled
        spark.excludeOnFailure.enabled
        spark.excludeOnFailure.killExcludedExecutors
        spark.excludeOnFailure.taskAndStage.enabled
        spark.memory.offHeap.enabled
        spark.python.worker.reuse
        spark.rdd.compress
        spark.shuffle.checksum.enabled
        spark.shuffle.compress
        spark.shuffle.detectCorrupt
        spark.shuffle.detectCorrupt.useExtraMemory
        spark.shuffle.readHostLocalDisk
        spark.shuffle.reduceLocality.enabled
        spark.shuffle.sort.useRadixSort
        spark.shuffle.spill.compress
        spark.shuffle.sync
        spark.shuffle.unsafe.fastMergeEnabled
        spark.speculation
        spark.speculation.efficiency.enabled
        spark.sql.adaptive.coalescePartitions.enabled
        spark.sql.adaptive.coalescePartitions.parallelismFirst
        spark.sql.adaptive.enabled
        spark.sql.adaptive.forceOptimizeSkewedJoin
        spark.sql.adaptive.localShuffleReader.enabled
        spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled
        spark.sql.adaptive.skewJoin.enabled
        spark.sql.ansi.doubleQuotedIdentifiers
        spark.sql.ansi.enabled
        spark.sql.ansi.enforceReservedKeywords
        spark.sql.ansi.relationPrecedence
        spark.sql.avro.filterPushdown.enabled
        spark.sql.bucketing.coalesceBucketsInJoin.enabled
        spark.sql.caseSensitive
        spark.sql.cbo.enabled
        spark.sql.cbo.joinReorder.enabled
        spark.sql.cbo.planStats.enabled
        spark.sql.cbo.starSchemaDetection
        spark.sql.charAsVarchar
        spark.sql.csv.filterPushdown.enabled
        spark.sql.datetime.java8API.enabled
        spark.sql.execution.arrow.pyspark.enabled
        spark.sql.execution.arrow.pyspark.fallback.enabled
        spark.sql.execution.arrow.pyspark.selfDestruct.enabled
        spark.sql.execution.arrow.useLargeVarTypes
        spark.sql.execution.pandas.inferPandasDictAsMap
        spark.sql.execution.pythonUDF.arrow.enabled
        spark.sql.execution.pythonUDTF.arrow.enabled
        spark.sql.files.ignoreCorruptFiles
        spark.sql.files.ignoreMissingFiles
        spark.sql.groupByAliases
        spark.sql.groupByOrdinal
        spark.sql.inMemoryColumnarStorage.compressed
        spark.sql.inMemoryColumnarStorage.enableVectorizedReader
        spark.sql.join.preferSortMergeJoin
        spark.sql.json.filterPushdown.enabled
        spark.sql.jsonGenerator.ignoreNullFields
        spark.sql.optimizer.avoidCollapseUDFWithExpensiveExpr
        spark.sql.optimizer.collapseProjectAlwaysInline
        spark.sql.optimizer.dynamicPartitionPruning.enabled
        spark.sql.optimizer.enableCsvExpressionOptimization
        spark.sql.optimizer.enableJsonExpressionOptimization
        spark.sql.optimizer.runtime.bloomFilter.enabled
        spark.sql.orc.aggregatePushdown
        spark.sql.orc.enableNestedColumnVectorizedReader
        spark.sql.orc.enableVectorizedReader
        spark.sql.orc.filterPushdown
        spark.sql.orc.mergeSchema
        spark.sql.orderByOrdinal
        spark.sql.parquet.aggregatePushdown
        spark.sql.parquet.binaryAsString
        spark.sql.parquet.enableNestedColumnVectorizedReader
        spark.sql.parquet.enableVectorizedReader
        spark.sql.parquet.fieldId.read.enabled
        spark.sql.parquet.fieldId.read.ignoreMissing
        spark.sql.parquet.fieldId.write.enabled
        spark.sql.parquet.filterPushdown
        spark.sql.parquet.inferTimestampNTZ.enabled
        spark.sql.parquet.int96AsTimestamp
        spark.sql.parquet.int96TimestampConversion
        spark.sql.parquet.mergeSchema
        spark.sql.parquet.recordLevelFilter.enabled
        spark.sql.parquet.respectSummaryFiles
        spark.sql.parquet.writeLegacyFormat
        spark.sql.parser.quotedRegexColumnNames
        spark.sql.preserveCharVarcharTypeInfo
        spark.sql.pyspark.inferNestedDictAsStruct.enabled
        spark.sql.readSideCharPadding
        spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch
        spark.sql.shuffle.orderIndependentChecksum.enabled
        spark.sql.shuffleDependency.fileCleanup.enabled
        spark.sql.sources.bucketing.autoBucketedScan.enabled
        spark.sql.sources.bucketing.enabled
        spark.sql.sources.partitionColumnTypeInference.enabled
        spark.sql.statistics.fallBackToHdfs
        spark.sql.statistics.histogram.enabled
        spark.sql.statistics.size.autoUpdate.enabled
        spark.task.reaper.enabled
        spark.task.reaper.threadDump
        """,
    ),
    (
        COUNT,
        """
        spark.databricks.delta.collectStats.numFilesPerPartition
        spark.databricks.delta.optimizeWrite.numShuffleBlocks
        spark.reducer.maxReqsInFlight
        spark.sql.execution.arrow.maxRecordsPerBatch
        spark.sql.execution.python.udf.maxRecordsPerBatch
        spark.sql.execution.topKSortFallbackThreshold
        spark.sql.inMemoryColumnarStorage.batchSize
        spark.sql.optimizer.runtime.bloomFilter.expectedNumItems
        spark.sql.optimizer.runtime.bloomFilter.maxNumItems
        spark.sql.orc.columnarReaderBatchSize
        spark.sql.parquet.columnarReaderBatchSize
        spark.sql.pivotMaxValues
        """,
    ),
    (
        COUNT_OR_ZERO,
        """
        spark.shuffle.sort.bypassMergeThreshold
        spark.sql.debug.maxToStringFields
        spark.sql.files.maxRecordsPerFile
        spark.sql.sources.parallelPartitionDiscovery.threshold
        """,
    ),
    (
        PARTITIONS,
        """
        spark.databricks.delta.autoCompact.maxNumModifiedPartitions
        spark.databricks.delta.autoCompact.minNumFiles
        spark.databricks.delta.optimizeWrite.maxShufflePartitions
        spark.databricks.delta.properties.defaults.checkpointInterval
        spark.databricks.delta.snapshotPartitions
        spark.default.parallelism
        spark.sql.adaptive.coalescePartitions.initialPartitionNum
        spark.sql.files.maxPartitionNum
        spark.sql.files.minPartitionNum
        spark.sql.leafNodeDefaultParallelism
        spark.sql.shuffle.partitions
        spark.sql.sources.bucketing.maxBuckets
        spark.sql.sources.parallelPartitionDiscovery.parallelism
        spark.sql.ui.retainedExecutions
        """,
    ),
    (
        FEW,
        """
        spark.databricks.delta.merge.materializeSource.maxAttempts
        spark.databricks.delta.optimize.maxThreads
        spark.databricks.delta.vacuum.parallelDelete.parallelism
        spark.excludeOnFailure.application.maxFailedExecutorsPerNode
        spark.excludeOnFailure.application.maxFailedTasksPerExecutor
        spark.excludeOnFailure.stage.maxFailedExecutorsPerNode
        spark.excludeOnFailure.stage.maxFailedTasksPerExecutor
        spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor
        spark.excludeOnFailure.task.maxTaskAttemptsPerNode
        spark.shuffle.mapOutput.dispatcher.numThreads
        spark.shuffle.registration.maxAttempts
        spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio
        spark.sql.optimizer.runtimeFilter.number.threshold
        spark.sql.shuffledHashJoinFactor
        spark.stage.maxConsecutiveAttempts
        spark.task.cpus
        spark.task.maxFailures
        """,
    ),
    (LEVEL, "spark.sql.avro.zstandard.level spark.sql.execution.arrow.compression.zstd.level"),
    (COLUMNS, "spark.databricks.delta.properties.defaults.dataSkippingNumIndexedCols"),
    (
        BYTES,
        """
        spark.databricks.delta.autoCompact.maxFileSize
        spark.databricks.delta.autoCompact.minFileSize
        spark.databricks.delta.optimize.maxFileSize
        spark.databricks.delta.optimize.minFileSize
        """,
    ),
    (
        SIZE,
        """
        spark.databricks.delta.optimizeWrite.binSize
        spark.executor.memoryOverhead
        spark.executor.pyspark.memory
        spark.files.maxPartitionBytes
        spark.sql.adaptive.advisoryPartitionSizeInBytes
        spark.sql.adaptive.coalescePartitions.minPartitionSize
        spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes
        spark.sql.files.maxPartitionBytes
        spark.sql.maxBroadcastTableSize
        spark.sql.maxSinglePartitionBytes
        spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold
        spark.sql.optimizer.runtime.bloomFilter.creationSideThreshold
        spark.sql.planner.pythonExecution.memory
        """,
    ),
    (
        SIZE_OR_ZERO,
        """
        spark.driver.maxResultSize
        spark.memory.offHeap.size
        spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold
        """,
    ),
    (SIZE_OR_OFF, "spark.sql.adaptive.autoBroadcastJoinThreshold spark.sql.autoBroadcastJoinThreshold"),
    (
        BUFFER,
        """
        spark.reducer.maxSizeInFlight
        spark.shuffle.accurateBlockThreshold
        spark.shuffle.file.buffer
        spark.shuffle.file.merge.buffer
        spark.shuffle.localDisk.file.output.buffer
        spark.shuffle.mapOutput.minSizeForBroadcast
        spark.shuffle.spill.diskWriteBufferSize
        spark.shuffle.unsafe.file.output.buffer
        spark.task.maxDirectResultSize
        """,
    ),
    (MESSAGE, "spark.rpc.message.maxSize"),
    (
        TIME,
        """
        spark.excludeOnFailure.timeout
        spark.executor.heartbeatInterval
        spark.locality.wait
        spark.locality.wait.node
        spark.locality.wait.process
        spark.locality.wait.rack
        spark.network.timeout
        spark.shuffle.registration.timeout
        spark.speculation.interval
        spark.speculation.minTaskRuntime
        spark.speculation.task.duration.threshold
        spark.sql.broadcastTimeout
        spark.task.reaper.killTimeout
        spark.task.reaper.pollingInterval
        """,
    ),
    (
        FRACTION,
        """
        spark.executor.memoryOverheadFactor
        spark.memory.fraction
        spark.memory.storageFraction
        spark.speculation.efficiency.processRateMultiplier
        spark.speculation.quantile
        spark.sql.adaptive.rebalancePartitionsSmallPartitionFactor
        """,
    ),
    (FACTOR, "spark.speculation.multiplier spark.sql.adaptive.skewJoin.skewedPartitionFactor"),
    (TIME_ZONE, "spark.sql.session.timeZone"),
    (COLUMN, "spark.sql.columnNameOfCorruptRecord"),
    # Below INFO, libraries log credentials: headers of requests and signed URLs.
    (one_of("WARN", "INFO", "ERROR"), "spark.log.level"),
    (one_of("none", "name", "id"), "spark.databricks.delta.properties.defaults.columnMapping.mode"),
    (one_of("none", "auto", "all"), "spark.databricks.delta.merge.materializeSource"),
    (one_of("uncompressed", "snappy", "gzip", "lz4_raw", "zstd"), "spark.sql.parquet.compression.codec"),
    (one_of("none", "snappy", "zlib", "lz4", "zstd"), "spark.sql.orc.compression.codec"),
    (one_of("uncompressed", "deflate", "snappy", "bzip2", "xz", "zstandard"), "spark.sql.avro.compression.codec"),
    (one_of("none", "lz4", "zstd"), "spark.sql.execution.arrow.compression.codec"),
    (one_of("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"), "spark.sql.parquet.outputTimestampType"),
    (one_of("static", "dynamic", "STATIC", "DYNAMIC"), "spark.sql.sources.partitionOverwriteMode"),
    (one_of("ANSI", "LEGACY", "STRICT"), "spark.sql.storeAssignmentPolicy"),
    (one_of("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"), "spark.sql.timestampType"),
    (one_of("EXCEPTION", "LAST_WIN"), "spark.sql.mapKeyDedupPolicy"),
    (one_of("legacy", "row", "dict"), "spark.sql.execution.pandas.structHandlingMode"),
    (
        one_of("MEMORY_ONLY", "MEMORY_AND_DISK", "MEMORY_ONLY_SER", "MEMORY_AND_DISK_SER", "DISK_ONLY", "OFF_HEAP"),
        "spark.sql.defaultCacheStorageLevel",
    ),
    (
        _REBASE,
        """
        spark.sql.avro.datetimeRebaseModeInRead
        spark.sql.avro.datetimeRebaseModeInWrite
        spark.sql.legacy.timeParserPolicy
        spark.sql.parquet.datetimeRebaseModeInRead
        spark.sql.parquet.datetimeRebaseModeInWrite
        spark.sql.parquet.int96RebaseModeInRead
        spark.sql.parquet.int96RebaseModeInWrite
        """,
    ),
)

ALLOWED: Mapping[str, Form] = {name: form for form, names in _NAMES for name in names.split()}
"""The allowed properties and the forms of their values."""

_PREFIXES = ("spark.sql.", "spark.databricks.delta.", "spark.")  # they shorten the rule: the CRD contains it


def rule() -> tuple[str, str, str]:
    """The rule of the CRD: the CEL expression that must hold, its message, and the CEL expression of the message."""
    good = " || ".join(f"({_named(names)} && {_has_form(form)})" for form, names in _by_form().items())
    bad = f"self.conf.filter(key, !({good}))"
    text = "spark.application.conf: use only properties of docs/reference/properties.md, with values of that form"
    return f"!has(self.conf) || size({bad}) == 0", text, f"'{text}; refused: ' + {bad}[0]"


def _by_form() -> dict[Form, list[str]]:
    found: dict[Form, list[str]] = {}
    for name, form in ALLOWED.items():
        found.setdefault(form, []).append(name)
    return found


def _named(names: list[str]) -> str:
    """CEL: whether `key` is one of the names."""
    parts, left = [], list(names)
    for prefix in _PREFIXES:
        below = [name.removeprefix(prefix) for name in left if name.startswith(prefix)]
        left = [name for name in left if not name.startswith(prefix)]
        if below:
            listed = ", ".join(f"'{name}'" for name in below)
            parts.append(f"key.startsWith('{prefix}') && key.substring({len(prefix)}) in [{listed}]")
    return f"({' || '.join(parts)})"


def _has_form(form: Form) -> str:
    """CEL: whether the value of `key` has a form."""
    return f"self.conf[key].matches('^({form.pattern})$')"
