#pragma once
// The calls of CUPTI that are made, as a table that its library fills, or a test.

#include <cupti.h>

#include <string>

#include "exec/cuda/api/activity_library.hpp"

namespace exec::cuda {

struct Cupti {
  decltype(&cuptiGetVersion) version = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop = nullptr;
};

// As open_cupti(), of these calls. One library at a time.
OpenedActivity open_cupti(const Cupti& calls);

// "attention_query_gradient<float>": a kernel's name as a linker knows it, without its arguments.
std::string readable_kernel(const char* name);

}  // namespace exec::cuda
