#pragma once
// Published timings of single collectives against the cost model: the file measured/nccl_busbw.csv,
// one timing a row, of columns gpu, topology, n_gpus, nodes, collective, bytes, time_us and
// busbw_GBps (nccl-tests' conventions, S in bytes). The GPU's profile follows from its name; from
// `topology` the cloud's node that has its network (TCPXO, EFA), the rates of its network cards
// ("8x400Gb/s") and bridges between pairs; a time that is not there from the bus bandwidth. Not
// predicted, each with its reason: GPUs without a profile, switches that reduce (SHARP), rows
// without a size or a time. Thread-safe; pure but for profiles.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/code.hpp"
#include "core/result.hpp"
#include "reports/text.hpp"
#include "reports/validate/score.hpp"

namespace reports::validation {

struct CollectiveRow {
  std::string id, gpu, collective, choice;  // of NCCL: "ring LL"; "message", "exchange"
  std::string network;                      // "EFA: aws-p6-b200", "inside a node"
  int gpus = 0, nodes = 0;
  std::int64_t bytes = 0;
  double measured = 0, predicted = 0;       // seconds

  double relative_error() const { return predicted / measured - 1; }
};

struct CollectiveScores {
  std::vector<CollectiveRow> rows;
  std::vector<Skipped> skipped;
  core::Problems problems;                  // of rows that are bad input, by line and column
};

// Whether a file with this header is one of collectives.
bool holds_collectives(std::string_view text);
// Errors: no header, missing columns. progress: is told now and then how far it is; optional.
core::Result<CollectiveScores> score_collectives(
    std::string_view text, std::string_view source,
    const std::function<void(std::string_view)>& progress = {});

std::string collectives_text(const CollectiveScores& scores, TextStyle style);
// A section of the page.
core::Code collectives_page(const CollectiveScores& scores, std::string_view file);
std::string to_json_text(const CollectiveScores& scores);

}  // namespace reports::validation
