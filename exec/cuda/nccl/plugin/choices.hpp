#pragma once
// What the library is to choose for its collectives, as a file says it: one line for each choice,
//   CALL RANKS BYTES ALGORITHM PROTOCOL CHANNELS
// such as "all_reduce 8 26214400 ring simple 24". CALL is all_reduce, reduce_scatter, all_gather or
// broadcast. BYTES are those of the whole vector. PROTOCOL and CHANNELS may be "auto": NCCL's own.
// Pure; thread-safe. Built into the plugin, which links nothing else of this project.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exec::cuda::nccl {

struct Choice {
  int function = 0;                    // Function of abi.hpp
  int ranks = 0;
  std::int64_t bytes = 0;
  int algorithm = 0;                   // index into kAlgorithmNames
  std::optional<int> protocol;         // index into kProtocolNames
  std::optional<int> channels;
  friend bool operator==(const Choice&, const Choice&) = default;
};

std::string to_text(const std::vector<Choice>& choices);
// Nothing where a line is not as above; `wrong` is then its number, from 1.
std::optional<std::vector<Choice>> choices_from(std::string_view text, int& wrong);

std::optional<int> function_from_name(std::string_view name);   // "all_reduce"
std::optional<int> algorithm_from_name(std::string_view name);  // "ring"
std::optional<int> protocol_from_name(std::string_view name);   // "ll128"

// The one of this call and as many ranks whose bytes are nearest by ratio; null: none.
const Choice* choose(const std::vector<Choice>& choices, int function, int ranks,
                     std::int64_t bytes);

// Makes the chosen algorithm the cheapest of the table, in its cheapest protocol where none is
// chosen. False, and nothing is changed, where the library cannot run it.
bool apply(const Choice& choice, float* costs, int algorithms, int protocols);

}  // namespace exec::cuda::nccl
