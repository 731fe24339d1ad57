#pragma once
// Internal to imports/: the parts of read_megatron.

#include "reports/imports/facts.hpp"

namespace reports::imports {

// Fills Facts::sizes. REQUIRES: Facts::seq_len is read.
void read_megatron_model(Facts& facts);

}  // namespace reports::imports
