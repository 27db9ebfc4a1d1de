#!/usr/bin/env bash
# Removes all jars of a folder but those that kept.txt names.
#
#   spark/jars/keep.sh FOLDER
# pyspark brings Spark's optional parts with what they need. A batch needs Spark SQL, Delta, the Kubernetes mode and Python. The
# rest stays out of the image: compilers and shells (Scala, JLine, Ivy, the REPL), Hive with its database, MLlib and GraphX,
# Spark Connect, YARN, libraries of other platforms, the web server's REST API. Fails if a jar of the list is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shopt -s dotglob nullglob
cd "$1"
for found in *; do
  grep -qxF -- "$found" "$here/kept.txt" || rm -rf -- "$found"
done
missing=$(while read -r jar; do [ -f "$jar" ] || echo "$jar"; done <"$here/kept.txt")
[ -z "$missing" ] || { printf 'Not in %s: %s. Change spark/jars/kept.txt with the version of pyspark.\n' "$1" "$missing" >&2; exit 1; }
