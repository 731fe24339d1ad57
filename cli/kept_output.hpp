#pragma once
// What a verb prints, kept in memory instead: for a caller that goes on after the verb (call.hpp),
// and for verbs whose output is put into a larger one. Streams of the process are not touched.

#include <functional>
#include <string>
#include <string_view>

namespace cli {

struct KeptOutput {
  std::string out{};                   // of standard output
  std::string reasons{};               // of standard error, without the name of the program
  std::string page{};                  // with --json: what would have been printed without it
  // Is told what is being done, on any thread, one at a time; empty: nobody asks.
  std::function<void(std::string_view)> progress{};
};

// While one lives, whatever verbs print on this thread goes to `kept`.
class KeepOutput {
 public:
  explicit KeepOutput(KeptOutput& kept);
  KeepOutput(const KeepOutput&) = delete;
  KeepOutput& operator=(const KeepOutput&) = delete;
  ~KeepOutput();

 private:
  KeptOutput* previous_;
};

// Where output of this thread is kept; nullptr: it goes to the streams of the process.
KeptOutput* kept_output();

}  // namespace cli
