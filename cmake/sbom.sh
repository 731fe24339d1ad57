#!/usr/bin/env bash
# The list of what binaries are made of, as CycloneDX 1.5: a component for each source package that
# they link or whose headers are compiled into them. Versions and licences are those that the
# distribution's package database has; a file of no package is a component with its own name.
# usage: sbom.sh SOURCE_FOLDER BUILD_FOLDER VERSION BINARY... >FILE
set -euo pipefail
export LC_ALL=C
source_folder=$1 build=$2 version=$3
shift 3

# Shared libraries as the loader finds them, by real paths.
libraries() {
  local binary
  for binary in "$@"; do ldd "$binary"; done | awk '$2 == "=>" && $3 ~ "^/" {print $3}' | sort -u |
    xargs -r readlink -f | sort -u
}

# Headers outside the checkout of everything that is packed; Ninja keeps what compilers read.
headers() {
  ninja -C "$build" -t deps 2>/dev/null | awk -v own="$source_folder/" '
    /^[^ ]/ {packed = $1 !~ "^(tests|python)/"}
    /^ / && packed && $1 ~ "^/" && index($1, own) != 1 {print $1}' | sort -u
}

# Lines "PACKAGE FILE"; PACKAGE is - for a file of none. Where / and /usr are one folder, the database
# may have either name.
packages_of() {
  local files=$1 found=$2
  if ! command -v dpkg-query >/dev/null; then
    sed 's/^/- /' "$files"
    return
  fi
  { cat "$files"; sed -n 's|^/usr/|/|p' "$files"; } | xargs -r dpkg-query -S 2>/dev/null |
    awk '!/^diversion/ {split($1, owner, ","); sub(/:$/, "", owner[1]); file = $NF
      sub("^/(usr/)?", "/", file); print owner[1], file}' >"$found" || true
  awk 'FNR == NR {owner[$2] = $1; next}
    {key = $1; sub("^/(usr/)?", "/", key); print (key in owner ? owner[key] : "-"), $1}' "$found" "$files"
}

# The licence of "Files: *" in a copyright file of the usual format, then the others of its parts;
# nothing where the file is free text.
licences_of() {
  [[ -r $1 ]] || return 0
  awk 'NR == 1 && !/^Format:/ {exit}
    /^Files:/ {part = $2; sub(/^Files: */, "")}
    /^License:/ && part != "" {
      sub(/^License: */, "")
      if (part == "*" && whole == "") whole = $0
      else if (part !~ /^debian/ && $0 != whole && !seen[$0]++) others = others (others == "" ? "" : ", ") $0
      part = ""
    }
    END {if (whole != "") {print whole; print others}}' "$1"
}

# Debian's name of a licence as SPDX has it; empty: it has none.
spdx() {
  case $1 in
    Expat) echo MIT ;;
    BSD-[23]-clause) echo "${1%clause}Clause" ;;
    GPL-[23] | LGPL-[23]) echo "$1.0-only" ;;
    GPL-[23]+ | LGPL-[23]+) echo "${1%+}.0-or-later" ;;
    LGPL-2.1 | GPL-2.0 | GPL-3.0) echo "$1-only" ;;
    LGPL-2.1+ | GPL-2.0+ | GPL-3.0+) echo "${1%+}-or-later" ;;
    MIT | X11 | BSL-1.0 | Apache-2.0 | Zlib | CC0-1.0) echo "$1" ;;
  esac
}

quoted() { printf '"%s"' "$(sed 's/[\\"]/\\&/g' <<<"$1")"; }
property() { printf '{"name": %s, "value": %s}' "$(quoted "$1")" "$(quoted "$2")"; }

# component NAME VERSION PURL LICENCE OTHERS HOW FILES: prints one.
component() {
  local id licence='' properties
  id=$(spdx "$4")
  if [[ -n $id ]]; then
    licence="{\"license\": {\"id\": \"$id\"}}"
  elif [[ -n $4 ]]; then
    licence="{\"license\": {\"name\": $(quoted "$4")}}"
  fi
  properties=$(property planner:used "$6")
  if [[ -n $5 ]]; then properties+=", $(property planner:licences-of-parts "$5")"; fi
  if [[ -n $7 ]]; then properties+=", $(property planner:files "$7")"; fi
  printf '    {\n      "type": "library", "bom-ref": %s, "name": %s,' "$(quoted "$1")" "$(quoted "$1")"
  if [[ -n $2 ]]; then printf ' "version": %s,' "$(quoted "$2")"; fi
  if [[ -n $3 ]]; then printf '\n      "purl": %s,' "$(quoted "$3")"; fi
  printf '\n      "licenses": [%s],\n      "properties": [%s]\n    }' "$licence" "$properties"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries "$@" >"$work/libraries"
headers >"$work/headers"
{
  packages_of "$work/libraries" "$work/found" | sed 's/^/linked /'
  packages_of "$work/headers" "$work/found" | sed 's/^/compiled /'
} >"$work/owned"

# Source packages, each with its packages here: "SOURCE VERSION PACKAGE FULL_VERSION HOW".
awk '$2 != "-" {print $2, $1}' "$work/owned" | sort -u | while read -r package how; do
  # shellcheck disable=SC2016  # fields of dpkg-query
  printf '%s %s\n' "$(dpkg-query -W -f '${source:Package} ${source:Upstream-Version} ${Package} ${Version}' \
    "$package")" "$how"
done | sort -u >"$work/sources"
distribution=$(. /etc/os-release 2>/dev/null && printf '%s' "${ID:-linux}")

for name in $(cut -d' ' -f1 "$work/sources" | sort -u); do
  how=$(awk -v n="$name" '$1 == n {print $5}' "$work/sources" | sort -ru | paste -sd' ' | sed 's/ / and /')
  read -r _ upstream package full _ < <(awk -v n="$name" '$1 == n' "$work/sources" | sort -k5,5r -k3,3)
  mapfile -t licences < <(licences_of "/usr/share/doc/$package/copyright")
  component "$name" "$upstream" "pkg:deb/$distribution/$package@$full" \
    "${licences[0]:-as in /usr/share/doc/$package/copyright}" "${licences[1]:-}" "$how" \
    "$(awk -v n="$name" '$1 == n {print $3}' "$work/sources" | sort -u | paste -sd' ')" >"$work/component.$name"
done
# Of no package: libraries each, headers by the folder that they were found in.
awk '$2 == "-" && $1 == "linked" {print $3}' "$work/owned" | while read -r file; do
  base=$(basename "$file")
  component "${base%%.so*}" "$(sed -n 's/.*\.so\.//p' <<<"$base")" '' 'not known' '' linked "$file" \
    >"$work/component.${base%%.so*}"
done
awk '$2 == "-" && $1 == "compiled" {print $3}' "$work/owned" | sed -n 's|\(.*/include\)/.*|\1|p' | sort -u |
  while read -r folder; do
    component "headers below $folder" '' '' 'not known' '' compiled '' >"$work/component.${folder//\//_}"
  done
# Inside the program as data.
read -r echarts < <(awk -F'|' '/echarts.min.js/ {gsub(/ /, "", $4); print $4; exit}' \
  "$source_folder/reports/html/vendor/README.md")
component echarts "$echarts" "pkg:npm/echarts@$echarts" Apache-2.0 '' embedded '' >"$work/component.echarts"

printf '{\n  "bomFormat": "CycloneDX",\n  "specVersion": "1.5",\n  "version": 1,\n  "metadata": {\n'
printf '    "component": {"type": "application", "bom-ref": "planner", "name": "planner", "version": %s,\n' \
  "$(quoted "$version")"
printf '                  "licenses": [{"license": {"id": "Apache-2.0"}}]}\n  },\n  "components": [\n'
first=1
for file in "$work"/component.*; do
  if [[ $first -eq 0 ]]; then printf ',\n'; fi
  first=0
  cat "$file"
done
printf '\n  ],\n  "dependencies": [\n    {"ref": "planner", "dependsOn": ['
grep -ho '"bom-ref": "[^"]*"' "$work"/component.* | sed 's/"bom-ref": //' | paste -sd, | sed 's/,/, /g' | tr -d '\n'
printf ']}\n  ]\n}\n'
