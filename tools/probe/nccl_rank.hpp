#pragma once
// What section nccl and its rank processes agree on: how a rank is started and where it leaves its
// findings.

#include <string>
#include <vector>

namespace probe {

struct RankOptions {
  std::string folder;  // id file, rank<r>.json, rank<r>.error
  int rank = 0;
  int ranks = 1;  // 1: memory by channel count; more: all-reduces among processes on one GPU
  int device = 0;
  bool quick = false;
};

std::vector<std::string> to_arguments(const RankOptions& options);
RankOptions rank_options(const std::vector<std::string>& arguments);  // throws std::runtime_error
std::string rank_file(const RankOptions& options, const char* extension);

}  // namespace probe
