#!/usr/bin/env bash
# Makes one page that needs no other file. usage: make_page.sh MODULE.wasm VERSION OUT.html
# Needs bash, gzip and base64. The template's lines that are a word in @ are replaced by a file.
set -euo pipefail
module=$1 version=$2 out=$3
web=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

# A script's own text may not end its element.
script() { sed 's|</script|<\\/script|g' "$@"; }

while IFS= read -r line; do
  case $line in
    @STYLE@) cat "$web/../reports/html/page.css" "$web/page/page.css" ;;
    @WORKER@) script "$web/page/module.js" "$web/page/worker.js" ;;
    @PAGE@) script "$web/page/page.js" ;;
    *@MODULE@*)
      printf '%s' "${line%%@MODULE@*}"
      gzip -9 -n -c "$module" | base64 -w 0
      printf '%s\n' "${line#*@MODULE@}" ;;
    *) printf '%s\n' "${line//@VERSION@/$version}" ;;
  esac
done <"$web/page/index.html" >"$out.new"
mv "$out.new" "$out"
