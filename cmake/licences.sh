#!/usr/bin/env bash
# Copies the licence of each shared library of a folder into the folder of documents. The licence is the
# one in the package that the library came from. usage: licences.sh LIBRARIES_FOLDER TARGET_FOLDER
set -euo pipefail
shopt -s nullglob
mkdir -p "$2"
for file in "$1"/lib*.so*; do
  name=$(basename "$file")
  if [[ -L $file || $name == libplanner-* ]]; then continue; fi
  package=''
  if command -v dpkg-query >/dev/null; then
    package=$(dpkg-query -S "*/$name" 2>/dev/null | sed -n '1s/[:,].*//p') || true
  fi
  if [[ -z $package || ! -r /usr/share/doc/$package/copyright ]]; then
    printf 'note: no licence was found of %s: add it before you hand the archive on\n' "$name" >&2
    continue
  fi
  cp "/usr/share/doc/$package/copyright" "$2/$package"
done
