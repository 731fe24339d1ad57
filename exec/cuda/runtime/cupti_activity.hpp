#pragma once
// What the device records, by CUPTI's activity records: its headers are found when this is built,
// its library is opened while running, so that the binary starts where it is absent.

#include "exec/cuda/api/activity_library.hpp"

namespace exec::cuda {

// REQUIRES: the device's context is current. Where CUPTI cannot be opened or refuses, or this was
// built without its headers, says why and what to do.
OpenedActivity open_cupti();

}  // namespace exec::cuda
