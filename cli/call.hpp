#pragma once
// The command line as a function: the words of one call in, and back comes what the process would
// have printed and its exit code. For a program that goes on afterwards: it writes nothing to the
// streams of the process, handles no signals, starts no other program, and keeps no state. What a
// word means, and every message, is that of the command line, since the same verbs answer.
// Thread-safe: each thread may make calls at the same time.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/call.hpp"

namespace cli {

struct CallAnswer {
  int code = 0;                        // as a process ends: process.hpp
  std::string out;                     // standard output
  std::string reasons;                 // standard error: why the code is not 0, or notes
  std::string page;                    // with --json: the page for people that goes without it
};

// words: without the name of the program: {"plan", "--model", "gpt2-1.5b", "--json"}.
// call: may be stopped meanwhile, which makes the code 130. REQUIRES: it outlives this function.
// progress: is told what is being done, from threads of this function, one at a time.
// A verb that starts other programs or measures its process (exec, bench, doctor) is refused.
CallAnswer answer_call(const std::vector<std::string>& words, const core::Call& call,
                       std::function<void(std::string_view)> progress = {});

// The same for a program that has some of the verbs: `verb` runs the one that is meant.
CallAnswer answer_call_by(const std::function<int()>& verb, const core::Call& call,
                          std::function<void(std::string_view)> progress = {});
// The code of the verb; what it throws becomes a message and a code.
int guarded(const std::function<int()>& verb);

}  // namespace cli
