#!/usr/bin/env bash
# Fetches the jars of pom.xml from Maven Central and checks them against SHA256SUMS.
#
#   spark/jars/fetch.sh             into ${XDG_CACHE_HOME:-~/.cache}/eventconsumer/jars-<digest of SHA256SUMS>; prints that folder
#   spark/jars/fetch.sh FOLDER      into FOLDER (the image's build)
# A complete folder is reused. MAVEN_MIRROR, the URL of a mirror, replaces Maven Central; HTTPS_PROXY and SSL_CERT_FILE apply. No
# program of the repository runs: Maven would load its plugins from there, without digests. To change a version: edit pom.xml
# and write the digests that the check prints.
# Source: maven.apache.org/repositories/layout.html
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
digest=$(sha256sum "$here/SHA256SUMS" | cut -c1-16)
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/eventconsumer/jars-$digest}

complete() { (cd "$1" 2>/dev/null && sha256sum --quiet --strict -c "$here/SHA256SUMS" >/dev/null 2>&1); }

if ! complete "$folder"; then
  mkdir -p "$(dirname "$folder")"
  fresh=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  python3 - "$here/pom.xml" "${MAVEN_MIRROR:-https://repo.maven.apache.org/maven2}" "$fresh" <<'PROGRAM'
import shutil
import sys
import urllib.request
from xml.etree import ElementTree

pom, mirror, folder = sys.argv[1:]
for entry in ElementTree.parse(pom).findall(".//{*}dependency"):
    group, artifact, version = (entry.findtext("{*}" + tag) for tag in ("groupId", "artifactId", "version"))
    name = f"{artifact}-{version}.jar"
    url = f"{mirror.rstrip('/')}/{group.replace('.', '/')}/{artifact}/{version}/{name}"
    try:
        with urllib.request.urlopen(url, timeout=60) as source, open(f"{folder}/{name}", "wb") as target:
            shutil.copyfileobj(source, target)
    except OSError as error:
        sys.exit(f"{url}: {error}. Check MAVEN_MIRROR, HTTPS_PROXY and SSL_CERT_FILE.")
PROGRAM
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
