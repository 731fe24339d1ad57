#!/usr/bin/env bash
# What `cmake --install` puts down runs from any place, knows nothing of the checkout, and is found by
# find_package: the C++ example is built against it and answers as the program does.
# usage: install.sh BIN_FOLDER SOURCE_FOLDER BUILD_FOLDER
set -uo pipefail
source_folder=$2 build=$3
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cmake --install "$build" --prefix "$work/first" >install.txt 2>&1 || fail "$(tail -n 5 install.txt)"
mkdir moved
mv first moved/here
prefix=$work/moved/here
planner=$prefix/bin/planner
question=(--model gpt2-1.5b --gpus 8 --gpu rtx3090 --pin pipeline=1)

# ---- the program -------------------------------------------------------------------------------------
answers 0 '' env -i "$planner" "${question[@]}" --out plan.json
answers 0 '' env -i "$planner" exec plan.json --scale-down --steps 1 --quiet --out run.json
answers 0 '' env -i "$planner" compare plan.json run.json
for binary in "$prefix"/lib*/planner/planner*; do
  if grep -qF "$source_folder" "$binary"; then complain "${binary##*/} names the checkout"; fi
done
if grep -rlF "$source_folder" "$prefix"/lib*/cmake "$prefix/share"; then
  complain 'these name the checkout'
fi
for file in share/doc/planner/copyright share/doc/planner/schemas/plan-1.json \
  share/doc/planner/guide/one-gpu.md share/doc/planner/sbom.cdx.json \
  share/bash-completion/completions/planner share/zsh/vendor-completions/_planner \
  share/fish/vendor_completions.d/planner.fish; do
  [[ -s $prefix/$file ]] || complain "no $file"
done
bash -n "$prefix/share/bash-completion/completions/planner" || complain 'bash does not read the completions'

# ---- the manual page ---------------------------------------------------------------------------------
page=$(compgen -G "$prefix/share/man/man1/planner.1*")
case $page in *.gz) gzip -dc "$page" ;; *) cat "$page" ;; esac >planner.1
answers 0 '' "$planner" help --man
cmp -s out.txt planner.1 || complain 'the manual page is not that of this program'
# Each verb and each option of the reference is in it.
sed 's/\\-/-/g; s/\\f[BIR]//g' planner.1 >plain.1
grep -o '^## planner.*' "$source_folder/docs/cli.md" | sed 's/^## //' | while read -r title; do
  if [[ $title != planner ]]; then grep -qixF ".SH \"$title\"" plain.1 || echo "no section: $title"; fi
done >missing.txt
grep -o '^| `--[a-z0-9-]*' "$source_folder/docs/cli.md" | sed 's/^| `//' | sort -u | while read -r option; do
  grep -q -e "^$option\( \|$\)" plain.1 || echo "no option: $option"
done >>missing.txt
if [[ -s missing.txt ]]; then complain "$(cat missing.txt)"; fi
if command -v man >/dev/null && [[ -x $(command -v groff) ]]; then
  LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l planner.1 >page.txt 2>warnings.txt
  if [[ -s warnings.txt ]]; then complain "man warns: $(head -n 5 warnings.txt)"; fi
  grep -q -e '--global-batch N' page.txt || complain 'man shows no options'
else
  printf 'skipped: no man reads the manual page (install man-db and groff)\n'
fi

# ---- the list of contents ----------------------------------------------------------------------------
contents=$prefix/share/doc/planner/sbom.cdx.json
if command -v python3 >/dev/null; then
  python3 -m json.tool "$contents" >/dev/null || complain 'the list of contents is no JSON'
fi
grep -q '"bomFormat": "CycloneDX"' "$contents" || complain 'no CycloneDX'
if command -v dpkg-query >/dev/null; then
  ldd "$prefix"/lib*/planner/planner "$prefix"/lib*/planner/planner-exec | awk '$2 == "=>" {print $3}' |
    sort -u | while read -r library; do
    library=$(readlink -f "$library")
    owner=$(dpkg-query -S "*${library#/usr}" 2>/dev/null | sed -n '1s/[:,].*//p')
    if [[ -z $owner ]]; then continue; fi
    # shellcheck disable=SC2016  # fields of dpkg-query
    read -r name version < <(dpkg-query -W -f '${source:Package} ${source:Upstream-Version}\n' "$owner")
    grep -qF "\"name\": \"$name\", \"version\": \"$version\"" "$contents" || echo "$library: no $name $version"
  done >missing.txt
  if [[ -s missing.txt ]]; then complain "what is linked is not listed: $(cat missing.txt)"; fi
  # Those whose headers are compiled in leave no trace in a binary.
  for name in nlohmann-json3 cli11 xxhash 'boost[0-9.]*'; do
    grep -q "\"name\": \"$name\", \"version\": \"[0-9]" "$contents" || complain "no $name in the list"
  done
fi
grep -q '"name": "echarts", "version": "[0-9]' "$contents" || complain 'the library of pages is not listed'
if grep -q catch "$contents"; then complain 'what only tests need is listed'; fi

# ---- the library -------------------------------------------------------------------------------------
cp -r "$prefix/share/doc/planner/examples/cpp" example
# A machine that ./dev prepared has Ninja and no make, which CMake takes unless it is told.
{ cmake -G Ninja -S example -B example/build "-DCMAKE_PREFIX_PATH=$prefix" && cmake --build example/build; } \
  >example.txt 2>&1 || fail "the example: $(tail -n 20 example.txt)"
answers 0 '' example/build/plan_a_job gpt2-1.5b 8 rtx3090
strategy=$(env -i "$planner" "${question[@]}" | sed -n 's/^Recommended: //p')
[[ -n $strategy && $(head -n 1 out.txt) == "$strategy" ]] ||
  complain "the example says '$(head -n 1 out.txt)', the program '$strategy'"
answers 2 'gpt2-1.5c.*did you mean|did you mean.*gpt2-1.5b' example/build/plan_a_job gpt2-1.5c

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'installed, moved, found by find_package: as it should be\n'
