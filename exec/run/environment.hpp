#pragma once
// What a run happened on: for the record's device and environment. Reads /proc; thread-safe.

#include <map>
#include <string>

namespace exec {

// What the ranks of a run are.
enum class RanksAre { threads, processes };

// "8 threads on 2 cores of Intel(R) Xeon(R) Processor": the cores of this machine.
std::string device_text(int ranks, RanksAre what = RanksAre::threads);
// The name of this machine; empty where it has none.
std::string host_name();
// Compiler, BLAS, kernel, load when the run ended.
std::map<std::string, std::string> environment();

}  // namespace exec
