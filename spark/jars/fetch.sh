#!/usr/bin/env bash
# Fetches the jars of pom.xml from Maven Central and checks them against SHA256SUMS.
#
#   spark/jars/fetch.sh             into ${XDG_CACHE_HOME:-~/.cache}/eventconsumer/jars-<digest of SHA256SUMS>; prints that folder
#   spark/jars/fetch.sh FOLDER      into FOLDER (the image's build)
# A complete folder is reused. If MAVEN_MIRROR is set, it replaces Maven Central. To change a version: edit pom.xml and
# write the digests that the check prints.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
digest=$(sha256sum "$here/SHA256SUMS" | cut -c1-16)
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/eventconsumer/jars-$digest}

complete() { (cd "$1" 2>/dev/null && sha256sum --quiet --strict -c "$here/SHA256SUMS" >/dev/null 2>&1); }

if ! complete "$folder"; then
  command -v mvn >/dev/null || { echo "Maven is required to fetch the Spark jars: apt-get install
  --no-install-recommends maven" >&2; exit 1; }
  mkdir -p "$(dirname "$folder")"
  fresh=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  settings=()
  if [ -n "${MAVEN_MIRROR:-}" ]; then
    mirror="<mirror><id>mirror</id><mirrorOf>central</mirrorOf><url>$MAVEN_MIRROR</url></mirror>"
    echo "<settings><mirrors>$mirror</mirrors></settings>" >"$fresh/settings.xml"
    settings=(-s "$fresh/settings.xml")
  fi
  mvn -B -q -f "$here/pom.xml" "${settings[@]}" dependency:copy-dependencies "-Djars.directory=$fresh" >&2
  rm -f "$fresh/settings.xml"
  if ! complete "$fresh" || [ "$(find "$fresh" -name '*.jar' | wc -l)" != "$(grep -c . "$here/SHA256SUMS")" ]; then
    echo "The jars of pom.xml do not match SHA256SUMS. Found:" >&2
    (cd "$fresh" && sha256sum -- *.jar) >&2
    exit 1
  fi
  chmod 755 "$fresh"
  rm -rf "$folder"
  mv -T "$fresh" "$folder"
  trap - EXIT
fi
echo "$folder"
