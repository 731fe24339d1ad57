#pragma once
// Time of one kernel on an idle device, without its launch: a roofline whose compute side knows
// the shape. Pure functions; thread-safe.
//
// Symbols: M, N, K of C[M,N] = A[M,K] B[K,N]; P peak of the input type; e sustained fraction; S
// multiprocessors. Validity: dense GEMMs of 16-bit, f32 and f64 inputs; below about 10 us the
// launch gap dominates and these figures are lower bounds.

#include <cstdint>

#include "core/dtype.hpp"
#include "core/units.hpp"
#include "sim/cost/machine.hpp"

namespace cost {

struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t count = 1;  // equal GEMMs in one kernel
};

// Fraction of the peak in (0, 1], derived: e x K / (K + K0) x wave. Output tiles of 128 x 128 fill
// S multiprocessors in whole waves; half of the loss is kept, because libraries choose other tiles
// and split K when a wave would run empty.
double gemm_efficiency(const GemmShape& shape, core::DType type, const Machine& machine);

// max(2 M N K count / (P x efficiency), bytes / memory). REQUIRES: the machine has a peak for the
// type.
core::Seconds gemm_time(const GemmShape& shape, core::DType type, const Machine& machine);

// The same, moving so many bytes: a convolution is the GEMM of its windows [chetlur2014], which its
// kernel gathers on chip. Its efficiency is taken to be the GEMM's; no published curve was fitted.
core::Seconds gemm_time(const GemmShape& shape, core::DType type, core::Bytes moved,
                        const Machine& machine);

// Fused causal attention. flops: of the full square, of which the kernel does half. The rate is
// P x attention efficiency x s / (s + 256), and heads narrower than 128 reach a part of it. Both
// were fitted to published runs (hw_profiles/README.md).
struct AttentionPass {
  core::Flops flops{};                 // of the whole square; a causal pass computes half of them
  std::int64_t seq_len = 0, head_dim = 0;
  bool forward = true;
  bool causal = true;
  bool on_vectors = false;             // without tensor cores, whatever the type
  bool own = false;                    // by this tool's kernels where a library has faster ones
  // Blocks of keys in one backward call of the library; 0: so many that it does not matter.
  std::int64_t blocks = 0;
};
// What a pass over long sequences keeps of the 16-bit peak on tensor cores, with heads of 128. own,
// blocks: as AttentionPass's.
double attention_efficiency(bool forward, bool own, std::int64_t blocks, const Machine& machine);
core::Seconds attention_time(const AttentionPass& pass, core::DType type, core::Bytes bytes,
                             const Machine& machine);

// Attention over stored scores: batched GEMMs of [rows, keys, head_dim], whose whole rectangle is
// computed, and passes over heads x rows x keys scores; forward 2 GEMMs and a third of the passes,
// backward the rest, 4 GEMMs among it.
struct ScoreShape {
  std::int64_t rows = 0;     // queries
  std::int64_t keys = 0;
  std::int64_t heads = 0;    // of all samples
  std::int64_t head_dim = 0;
  bool forward = true;
  double passes = 0;         // both directions
};
core::Seconds scores_time(const ScoreShape& shape, core::DType type, const Machine& machine);

// Of the bytes that an update of an offloaded optimizer reads and writes. Where the host makes it,
// by each GPU's share of the host's memory bandwidth, as if all GPUs of the node updated. Where the
// GPU makes it, over its bus, or by its share among the plan's GPUs if that is the slower.
core::Seconds offloaded_update_time(core::Bytes bytes, int gpus, const Machine& machine);

// A kernel and the host that issues it: the longer of the two where the host runs far ahead, more
// where each waits for the other now and then.
core::Seconds with_host(core::Seconds kernel, core::Seconds host, const Machine& machine);

core::Seconds memory_time(core::Bytes bytes, const Machine& machine);

// A copy between GPU and pinned host memory over PCIe. 30 us to start a synchronous copy (measured
// on PCIe 3, te42kyfo/gpu-benches).
core::Picoseconds host_copy_time(core::Bytes bytes, const Machine& machine);

}  // namespace cost
