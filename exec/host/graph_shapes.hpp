#pragma once
// The shapes that kernels of operator graphs are called with, from an operator. Pure.

#include "exec/host/graphs.hpp"
#include "models/graph.hpp"

namespace exec::host {

inline WindowShape window_shape(const models::Operator& op, std::int64_t samples) {
  return {samples * op.origins, op.image.channels, op.image.height, op.image.width,
          op.window.kernel, op.window.stride, op.window.padding};
}

inline ConvolutionShape convolution_shape(const models::Operator& op, std::int64_t samples) {
  return {window_shape(op, samples), op.n * op.groups, op.groups};
}

inline ResponseShape response_shape(const models::Operator& op, std::int64_t samples) {
  return {samples, op.n, op.rows, op.k};
}

inline ChannelShape channel_shape(const models::Operator& op, std::int64_t samples) {
  return {samples, op.n, op.rows};
}

}  // namespace exec::host
