#include "cli/kept_output.hpp"

#include <utility>

namespace cli {

static thread_local KeptOutput* kept_of_thread = nullptr;

KeepOutput::KeepOutput(KeptOutput& kept) : previous_(std::exchange(kept_of_thread, &kept)) {}
KeepOutput::~KeepOutput() { kept_of_thread = previous_; }

KeptOutput* kept_output() { return kept_of_thread; }

}  // namespace cli
