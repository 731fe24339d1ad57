#include "reports/imports/shell.hpp"

#include "tests/catch.hpp"

using namespace reports::imports;

namespace {

Shell read(const char* script, const std::map<std::string, std::string>& given = {}) {
  Shell shell(given);
  const auto done = shell.read(script, "x.sh");
  if (!done.ok()) FAIL(core::to_text(done.problems()));
  return shell;
}

// Words of the last command, "?" before one that is not known, "~" before one that is not sure.
std::string last(const char* script, const std::map<std::string, std::string>& given = {}) {
  const Shell shell = read(script, given);
  std::string text;
  for (const ShellWord& word : shell.commands().back().words)
    text += (text.empty() ? "" : " ") + std::string(word.known ? "" : "?") +
            (word.sure ? "" : "~") + '<' + word.text + '>';
  return text;
}

}  // namespace

TEST_CASE("words are split, joined and unquoted as a shell does it") {
  CHECK(last("run a 'b c' \"d  e\" f\\ g # h") == "<run> <a> <b c> <d  e> <f g>");
  CHECK(last("run a \\\n  b\\\nc") == "<run> <a> <bc>");
  CHECK(last("run 2>&1 a >out.txt b < in") == "<run> <a> <b>");
  CHECK(last("cat <<END\nrun no\nEND\nrun yes") == "<run> <yes>");
  CHECK(last("a && b; run c | tee log") == "<tee> <log>");
}

TEST_CASE("variables, arrays and arithmetic are replaced") {
  CHECK(last("N=4\nM=$((N * (2 + ${N})))\nrun $M ${N}x \"$N $M\"") == "<run> <24> <4x> <4 24>");
  CHECK(last("A=(--x 1 \"--y 2\")\nA+=(--z \"3 4\")\nrun ${A[@]}") ==
        "<run> <--x> <1> <--y> <2> <--z> <3> <4>");
  CHECK(last("A=(--x \"3 4\")\nrun \"${A[@]}\"") == "<run> <--x> <3 4>");
  CHECK(last("O=\" \\\n --a 1 \\\n --b 2\"\nO+=\" --c\"\nrun $O") ==
        "<run> <--a> <1> <--b> <2> <--c>");
  CHECK(last("run \"$@\" ${E[@]} x") == "<run> <x>");
  CHECK(last("export N=3 M=4\nrun $N $M") == "<run> <3> <4>");
}

TEST_CASE("a default stands where nothing sets the variable, and a given value before all") {
  CHECK(last("run ${N:-8} ${M:-\"a b\"}") == "<run> <8> <a b>");
  CHECK(last("N=2\nrun ${N:-8} ${N:+set} ${M:+unset}") == "<run> <2> <set>");
  CHECK(last("N=2\nrun $N ${N:-8}", {{"N", "16"}}) == "<run> <16> <16>");
  const Shell shell = read("N=${NODES:-8}\nrun $N");
  CHECK(shell.commands().back().words[1].by_default == "NODES");
}

TEST_CASE("what comes from outside stays as it was written, and is not known") {
  CHECK(last("D=$1\nrun --data $D/x $(nproc) `id` \"$HOME\"") ==
        "<run> <--data> ?<$1/x> ?<$(nproc)> ?<`id`> ?<$HOME>");
  CHECK(last("O=\"--data $1 --tp 2\"\nrun $O") == "<run> <--data> ?<$1> <--tp> <2>");
  CHECK(last("run $((UNSET * 2)) $((1 / 0))") == "<run> ?<$(...)> ?<$(...)>");
}

TEST_CASE("conditions over strings and numbers choose their branch") {
  CHECK(last("T=fp8\nA=()\nif [[ \"$T\" == fp8 ]]; then A+=(--f8); else A+=(--no); fi\n"
             "run ${A[@]}") == "<run> <--f8>");
  CHECK(last("N=3\nif [ $N -gt 4 ]; then X=a; elif [ $N -gt 2 ]; then X=b; else X=c; fi\nrun $X") ==
        "<run> <b>");
  CHECK(last("if [ -z \"$KEY\" ] || false; then X=1; else X=2; fi\nrun $X") == "<run> <1>");
  CHECK(last("X=1\nif [[ ! -n \"$X\" && a == a ]]; then X=2; fi\nrun $X") == "<run> <1>");
  CHECK(last("[ a = b ] && X=1\n[ a = a ] && Y=2\nrun $Y ${X:-none}") == "<run> <2> <none>");
}

TEST_CASE("what an undecided branch or a loop sets is not sure") {
  CHECK(last("A=(--a)\nif [ -f x ]; then A+=(--b); fi\nrun ${A[@]}") == "<run> <--a> ~<--b>");
  CHECK(last("for N in 1 2; do M=$N; done\nrun $M") == "<run> ?~<$N>");
  const Shell shell = read("for N in 1 2; do\n run $N\ndone");
  CHECK_FALSE(shell.commands().back().sure);
  CHECK(last("case $1 in a) X=1;; *) X=2;; esac\nrun $X") == "<run> ~<2>");
}

TEST_CASE("functions are read where they stand, and nothing is run") {
  CHECK(last("usage() {\n  exit 1\n}\ngo() { run $1 x; }\n") == "<run> ?<$1> <x>");
  CHECK(last("run a\nexit 0\nrun b") == "<run> <a>");
}

TEST_CASE("a script that is not closed is refused by its line") {
  for (const auto& [script, line] :
       {std::pair{"a\nb 'c", "x.sh:2"}, {"A=(1\n2", "x.sh:1"}, {"\n\necho \"$(x\"", "x.sh:3"}}) {
    Shell shell({});
    const auto done = shell.read(script, "x.sh");
    REQUIRE_FALSE(done.ok());
    CHECK(core::to_text(done.problems()).find(line) != std::string::npos);
  }
}

TEST_CASE("a script that nests or doubles without end is read in little time and memory") {
  Shell shell({});
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "\"$(";
  CHECK_FALSE(shell.read("x " + deep, "deep.sh").ok());
  std::string doubling = "A=(1 2)\nB=xxxxxxxx\n";
  for (int i = 0; i < 64; ++i) doubling += "A+=(\"${A[@]}\" \"${A[@]}\")\nB=$B$B\n";
  std::string opens;
  for (int i = 0; i < 20'000; ++i) opens += "if ";
  CHECK(Shell({}).read(doubling, "doubling.sh").ok());
  CHECK(Shell({}).read(opens + "x", "opens.sh").ok());
}
