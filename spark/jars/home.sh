#!/usr/bin/env bash
# Makes a home of Spark for the tests, with the jars of the image: those of pyspark and of fetch.sh that kept.txt names.
#
#   spark/jars/home.sh TARGET PYSPARK     TARGET: the folder to make; PYSPARK: the folder of the installed package
# All is linked, nothing copied. A home of the same lists is reused.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=$1 pyspark=$(cd "$2" && pwd)
state=$(cat "$here/kept.txt" "$here/SHA256SUMS" "$0" - <<<"$pyspark" | sha256sum)
exec 9>"$target.lock"
flock 9
[ "$state" != "$(cat "$target/state" 2>/dev/null)" ] || exit 0
fetched=$("$here/fetch.sh")
fresh=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
chmod 755 "$fresh"
ln -s "$pyspark"/* "$fresh/"
rm "$fresh/jars"
mkdir "$fresh/jars"
ln -s "$pyspark"/jars/*.jar "$fetched"/*.jar "$fresh/jars/"
"$here/keep.sh" "$fresh/jars"
echo "$state" >"$fresh/state"
rm -rf "$target"
mv -T "$fresh" "$target"
trap - EXIT
