# Rules for C++ and CUDA sources. FNR and FILENAME place each finding.
function report(line, text) { printf "%s:%d: %s\n", FILENAME, line, text }

# Characters, not bytes: continuation bytes of UTF-8 are dropped, in any locale.
function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }

# Folders whose headers may name the libraries that they wrap.
function may_wrap() { return FILENAME ~ /^\.\/(cli|exec|tools|tests)\// }

function finish_file() {
  if (file == "") return
  if (lines > 400) printf "%s:400: %d lines; split it by what changes together\n", file, lines
  if (header && !once) printf "%s:1: no #pragma once; make it the first line\n", file
  if (header && !opening)
    printf "%s:2: no opening comment; say what it holds, assumptions, thread-safety\n", file
}

FNR == 1 {
  finish_file()
  file = FILENAME
  header = FILENAME ~ /\.(hpp|cuh)$/
  once = opening = 0
}
{ lines = FNR }

FNR == 1 && /^#pragma once/ { once = 1 }
FNR <= 3 && /^\/\/ / { opening = 1 }

columns($0) > 100 { report(FNR, columns($0) " columns; wrap at 100") }
/\t/ { report(FNR, "a tab; write spaces") }
/[ \t]$/ || /\r$/ { report(FNR, "blanks at the end of the line; remove them") }

header && FILENAME !~ /^\.\/tests\// && /^[ ]*using namespace / {
  report(FNR, "using namespace in a header; name the namespace, or alias one type")
}
header && !may_wrap() && /^#include [<"](nlohmann|cuda|cublas|cudnn|nccl|mpi)/ {
  report(FNR, "a library type in a public header; include it in the .cpp, use core/json.hpp")
}
header && !may_wrap() && /^#include [<"](cuda_|cuda\/|cooperative_groups|thrust)/ {
  report(FNR, "CUDA below cli, exec and tools; move it to exec")
}
/^#include <(regex|iostream|cassert|assert\.h)>/ {
  report(FNR, "this header; write fmt, from_chars or PLANNER_CHECK (core/check.hpp) instead")
}
/(^|[^_a-z])assert\(/ && !/static_assert\(/ {
  report(FNR, "assert() vanishes with NDEBUG; write PLANNER_CHECK (core/check.hpp)")
}
/(^|[^_a-z])(s?rand|random_device|mt19937)[(_ ]/ && FILENAME !~ /^\.\/tests\// {
  report(FNR, "a generator that differs by platform or run; write core::Random (core/random.hpp)")
}
/system_clock|high_resolution_clock|CLOCK_REALTIME|gettimeofday/ {
  report(FNR, "a clock that jumps when somebody sets it; write std::chrono::steady_clock")
}
/FIXME|(^|[^X])XXX([^X]|$)/ || (/TODO/ && !/TODO\([^)]+\): /) {
  report(FNR, "a note without its end; write TODO(the condition that retires it): ...")
}
/shared_ptr/ && !/\/\// {
  report(FNR, "shared_ptr; write a value or unique_ptr, or say why on the same line")
}
END { finish_file() }
