# Sourced, before lib.sh, by tests of documents: it runs the examples of a page and holds the output
# that the page shows against what they print. The binaries are in PATH.
#
# An example is a block of kind `console`: "$ COMMAND", which a backslash continues in the next line,
# and below it what the command prints on both streams. A comment above the block may say what is
# shown of that; rules are separated by semicolons, and lines that are left out become "...":
#   <!-- show: first 9 -->            the first nine lines
#   <!-- show: section Candidates --> from the line that begins so to the next empty line
#   <!-- show: lines wire|live -->    lines that match
#   <!-- show: nothing -->            no output
# Other rules: "exits 1" is the exit code (0); "numbers vary" compares words alone, for figures of
# the machine that runs the example.

# The shell line of a command: what ./dev plan runs once it has built.
run_line() { bash -c "${1/#.\/dev plan/planner}"; }

# shown RULES: of standard input, what the rules show.
shown() {
  awk -v rules="$1" '
    function keep_section(words,   i, on) {
      for (i = 1; i <= NR; i++) {
        if (index(line[i], words) == 1) on = 1
        if (line[i] == "") on = 0
        if (on) kept[i] = 1
      }
    }
    function keep(rule,   i) {
      if (rule ~ /^first /) for (i = 1; i <= substr(rule, 7) + 0; i++) kept[i] = 1
      else if (rule ~ /^section /) keep_section(substr(rule, 9))
      else if (rule ~ /^lines /) { for (i = 1; i <= NR; i++) if (line[i] ~ substr(rule, 7)) kept[i] = 1 }
      else if (rule != "nothing") return
      ruled = 1
    }
    {line[NR] = $0}
    END {
      count = split(rules, rule, /; */)
      for (r = 1; r <= count; r++) keep(rule[r])
      if (rules ~ /(^|; *)nothing/) exit
      for (i = 1; i <= NR; i++) {
        if (ruled && !(i in kept)) {
          if (line[i] == "") empty = 1
          else gap = 1
          continue
        }
        if (gap) print "..."
        else if (empty) print ""
        gap = empty = 0
        print line[i]
      }
      if (gap) print "..."
    }'
}

# Words alone: figures with their units, and the blanks that align them, are all one.
words_of() {
  sed -E 's/[-+]?[0-9][0-9.,]*( ?(ns|us|ms|s|min|h|K|M|G|B|KiB|MiB|GiB|TiB|%)\b)?(\/s\b)?/#/g; s/ +/ /g' "$1"
}

# example RULES COMMAND: runs it; what is to be shown goes to printed.txt.
example() {
  local wanted=0 code=0
  if [[ $1 =~ exits\ ([0-9]+) ]]; then wanted=${BASH_REMATCH[1]}; fi
  run_line "$2" >whole.txt 2>&1 </dev/null || code=$?
  if [[ $code -ne $wanted ]]; then complain "$2: exit $code: $(tail -c 400 whole.txt)"; fi
  shown "$1" <whole.txt >printed.txt
}

# as_shown RULES: whether printed.txt is what the page shows, shown.txt.
as_shown() {
  if [[ $1 != *'numbers vary'* ]]; then cmp -s printed.txt shown.txt; return; fi
  diff <(words_of printed.txt) <(words_of shown.txt) >/dev/null
}

# check_examples PAGE SOURCE: runs the examples of the page in this folder, in their order. SOURCE is
# where the page comes from, which UPDATE_GOLDEN=1 writes anew.
check_examples() {
  local line rules='' command='' state=text different=0
  examples=0
  : >anew.txt
  while IFS= read -r line; do
    case $state in
      text)
        if [[ $line == '<!-- show: '*' -->' ]]; then rules=${line#<!-- show: }; rules=${rules% -->}
        elif [[ $line == '```console' ]]; then state=command
        elif [[ -n $line ]]; then rules=''; fi ;;
      command)
        [[ -n $command || $line == '$ '* ]] || fail "$2: an example begins with \"\$ \", not: $line"
        command+=${line#\$ }$'\n'
        if [[ $line != *\\ ]]; then state=output; : >shown.txt; fi ;;
      output)
        if [[ $line != '```' ]]; then printf '%s\n' "$line" >>shown.txt; continue; fi
        examples=$((examples + 1))
        example "$rules" "$command"
        if as_shown "$rules"; then cp shown.txt printed.txt
        elif [[ ${UPDATE_GOLDEN:-} == 1 ]]; then different=1
        else
          diff shown.txt printed.txt | head -n 40
          complain "${2##*/} does not show what is printed by: $command(UPDATE_GOLDEN=1 rewrites it)"
        fi
        cat printed.txt >>anew.txt
        state=text rules='' command='' ;;
    esac
    printf '%s\n' "$line" >>anew.txt
  done <"$1"
  if [[ $different == 1 ]]; then
    cp anew.txt "$2"
    printf '%s is written anew\n' "${2##*/}"
  fi
}
