#!/usr/bin/env bash
# cpack's archive runs where it is unpacked, with the libraries that it brings; the Debian packages hold
# what they should and say what they need. usage: packages.sh BIN_FOLDER BUILD_FOLDER
set -uo pipefail
build=$2
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pack() {
  (cd "$build" && cpack -G "$1" -B "$work/$1") >pack.txt 2>&1 || fail "cpack -G $1: $(tail -n 8 pack.txt)"
}

# ---- the archive -------------------------------------------------------------------------------------
pack TGZ
archive=$(compgen -G "TGZ/planner-*.tar.gz")
mkdir empty
tar -xzf "$archive" -C empty
[[ $(find empty -mindepth 1 -maxdepth 1 | wc -l) -eq 1 ]] || complain "not one folder: $(ls empty)"
root=$(compgen -G "empty/planner-*")
answers 0 '' env -i "$root/bin/planner" --model gpt2-124m --gpus 2 --seq 64 --global-batch 4 --out plan.json
answers 0 '' env -i "$root/bin/planner" exec plan.json --scale-down --steps 1
env -i ldd "$root/lib/planner/planner-exec" >linked.txt
folder=$(cd "$root/lib/planner" && pwd -P)
for library in libfmt libyaml-cpp libnlopt libopenblas libgfortran; do
  if grep -q "$library" linked.txt && ! grep -q "$library.*=> $folder" linked.txt; then
    complain "$library comes from elsewhere: $(grep "$library" linked.txt)"
  fi
done
if compgen -G "$root/lib/planner/lib[cm].so*" >/dev/null; then complain 'the C library is in the archive'; fi
[[ -n $(ls "$root/share/doc/planner/licences") ]] || complain 'no licences of the libraries that come along'

# ---- Debian packages ---------------------------------------------------------------------------------
for tool in dpkg-deb dpkg-shlibdeps file; do
  if ! command -v $tool >/dev/null; then
    printf 'skipped: no Debian packages without %s (install dpkg-dev and file)\n' $tool
    exit $((failures > 0))
  fi
done
pack DEB
deb=$(compgen -G 'DEB/planner_*.deb')
dpkg-deb -f "$deb" >control.txt
for field in '^Package: planner$' '^Maintainer: .* <.*@.*>$' '^Section: science$' \
  '^Depends: .*libc6 (>= [0-9.]*)' '^Depends: .*libstdc++6' '^Depends: .*libopenblas0' \
  '^Description: [a-z]' '^ [A-Z].*'; do
  grep -q -- "$field" control.txt || complain "no $field in: $(cat control.txt)"
done
if grep -q '^Depends: .*openmpi' control.txt; then complain 'planning needs MPI'; fi
dpkg-deb -x "$deb" scratch
[[ -z $(find scratch -mindepth 1 -maxdepth 1 ! -name usr) ]] || complain "outside of /usr: $(ls scratch)"
for file in usr/bin/planner usr/lib/planner/planner-exec usr/share/man/man1/planner.1.gz \
  usr/share/doc/planner/copyright usr/share/doc/planner/sbom.cdx.json \
  usr/share/bash-completion/completions/planner; do
  [[ -s scratch/$file ]] || complain "no $file in the package"
done
[[ -z $(find scratch -name 'lib*.so*' -o -name '*.hpp') ]] || complain 'libraries or headers in the package'
[[ -z $(find scratch ! -type l -perm /022) ]] || complain 'files that others may write'
answers 0 '' env -i scratch/usr/bin/planner --model gpt2-124m --gpus 2 --seq 64 --global-batch 4
if [[ -x $1/planner-exec-mpi ]]; then
  dpkg-deb -f DEB/planner-mpi_*.deb Depends >depends.txt
  grep -q 'planner (= .*libopenmpi' depends.txt || complain "planner-mpi depends on: $(cat depends.txt)"
fi
dpkg-deb -c DEB/planner-dev_*.deb >development.txt
grep -q './usr/include/planner/planner/search/search.hpp' development.txt || complain 'planner-dev: no headers'
grep -q './usr/lib/cmake/planner/planner-config.cmake' development.txt || complain 'planner-dev: no configuration'
if command -v lintian >/dev/null; then
  lintian --fail-on error DEB/*.deb >lintian.txt 2>&1 || complain "lintian: $(grep '^E' lintian.txt)"
else
  printf 'skipped: no lintian reads the packages (install lintian)\n'
fi

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'the archive and the packages: as they should be\n'
