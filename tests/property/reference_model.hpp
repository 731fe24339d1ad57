#pragma once
// Forward and backward pass of one micro-batch on one rank, written down operator by operator for
// transformers (with or without LoRA), feed-forward chains and operator graphs. Knows the host
// kernels and the model alone: no graph, no Program, no lowering, so that it can disagree with
// them. Not thread-safe.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "exec/host/kernels.hpp"
#include "models/spec.hpp"
#include "planner/question/f8_matrix.hpp"

namespace tests {

// A buffer of n elements of one type, zero at first.
class Typed {
 public:
  Typed() = default;
  Typed(core::DType type, std::int64_t n)
      : type_(type), size_(n), bytes_(static_cast<std::size_t>(core::bytes_of(n, type).value())) {}

  core::DType type() const { return type_; }
  std::int64_t size() const { return size_; }
  exec::host::View at(std::int64_t element = 0) {
    return exec::host::View{bytes_.data(), type_}.at(element);
  }
  void zero() { bytes_.assign(bytes_.size(), std::byte{0}); }

 private:
  core::DType type_ = core::DType::f32;
  std::int64_t size_ = 0;
  std::vector<std::byte> bytes_;
};

// By parameter path; the head's matrix is "lm_head.weight", whether it is tied or not.
using Views = std::map<std::string, exec::host::View>;

class Slices;                          // reference_slices.hpp

struct MicroBatch {
  const models::ModelSpec* spec = nullptr;
  std::int64_t samples = 1, seq_len = 1, global_batch = 1;
  const double* loss_scale = nullptr;  // of fp16
  // What a loss that is a mean over so many is multiplied by.
  exec::host::LossFactor mean_of(std::int64_t count) const {
    return {1.0 / static_cast<double>(count), loss_scale};
  }
  Slices* slices = nullptr;            // of ranks that divide the sequence; seq_len: of this one
  std::int64_t slice = 0;              // this rank among them
  std::int64_t lora_rank = 0;
  std::uint64_t seed = 1;              // of what is drawn at random
  std::int64_t first_sample = 0;       // counted over all steps
  std::int64_t loss_chunks = 1;        // the head takes the rows in so many runs
  bool stores_scores = false;          // attention keeps its probabilities
  std::optional<planner::F8Scaling> f8;  // products of layers multiply in 8 bits
  bool halves = false;                 // backward makes half of what an activation reads again
  core::DType activation = core::DType::f32, statistic = core::DType::f32;
  Typed inputs;                        // i32 tokens, or features in the activation's type
  Typed targets;                       // i32 tokens or classes, or features
  Views weights;                       // as kernels read them
  Views gradients;                     // of trained parameters: added to
};

// Adds the micro-batch's loss, divided by the global batch, to *loss, and its gradients.
void train_micro_batch(MicroBatch& batch, double* loss);

}  // namespace tests
