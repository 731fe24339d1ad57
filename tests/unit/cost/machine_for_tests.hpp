#pragma once
// A machine of round numbers, so that tests can state their arithmetic.

#include "sim/cost/machine.hpp"

inline cost::Machine round_machine() {
  cost::Machine m;
  m.peak.fill(core::FlopsPerSecond{100e12});
  m.gemm_efficiency = 0.5;
  m.gemm_efficiency_f8 = 0.5;
  m.gemm_prologue_k = 0;
  m.attention_forward = m.attention_backward = 0.5;
  m.multiprocessors = 64;
  m.memory = core::BytesPerSecond{1e12};
  m.launch = core::Seconds{1e-6};
  m.submit = core::Seconds{5e-6};
  m.gpus_per_node = 4;
  m.link_latency = core::Seconds{1e-6};
  m.internode_latency = core::Seconds{10e-6};
  m.link = core::BytesPerSecond{100e9};
  m.internode = core::BytesPerSecond{40e9};
  return m;
}
