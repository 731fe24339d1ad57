#pragma once
// Schemas of norms and pools of images. Included by schemas.hpp.

#include "models/ops/op_kind.hpp"
#include "models/ops/schema.hpp"

namespace models::ops {

// y = x / (2 + 1e-4 / w sum over w channels of x^2)^0.75
inline constexpr Schema local_response_norm{
    .kind = OpKind::local_response_norm,
    .inputs = "x", .outputs = "y",
    .keeps = "x",
    .input_gradient = "d_y x -> d_x",
    .gradient = Gradient::joint, .divides = kSample,
    .work = {.by = WorkOf::response_norm}};

// y = (x - mean) rstd gamma + beta, mean and rstd of a channel over all samples and places of a
// micro-batch [batchnorm]: of this rank's samples alone, as frameworks do unless asked to
// synchronise them. Backward finds them again.
inline constexpr Schema batch_norm{
    .kind = OpKind::batch_norm,
    .inputs = "x", .parameters = "gamma beta", .outputs = "y",
    .keeps = "x",
    .input_gradient = "d_y x gamma -> d_x d_gamma? d_beta?",
    .gradient = Gradient::joint, .divides = kSample,
    .work = {.by = WorkOf::batch_norm}};

// The same over the samples of all data ranks, as two operators between which the ranks' sums are
// added (data_reduce): sums[2, channels], in f64, of a channel's values and of their squares, over
// the samples of a micro-batch; then the norm. In f64 the variance, mean square less square of the
// mean, loses nothing that f32 activations have.
inline constexpr Schema channel_sums{
    .kind = OpKind::channel_sums,
    .inputs = "x", .outputs = "sums",
    .keeps = "x",
    .input_gradient = "x d_sums -> d_x",
    .gradient = Gradient::joint, .divides = kSample,
    .work = {.by = WorkOf::channel_sums}};
inline constexpr Schema channel_norm{
    .kind = OpKind::channel_norm,
    .inputs = "x sums", .parameters = "gamma beta", .outputs = "y",
    .keeps = "x sums",
    .input_gradient = "d_y x sums gamma -> d_x d_sums d_gamma? d_beta?",
    .gradient = Gradient::joint, .divides = kSample,
    .work = {.by = WorkOf::channel_norm}};

// ---- pools

// y, and places of the greatest in windows
inline constexpr Schema max_pool{
    .kind = OpKind::max_pool,
    .inputs = "x", .outputs = "y places?",
    .keeps = "places",
    .input_gradient = "d_y places -> d_x",
    .gradient = Gradient::joint, .divides = kSample | kOut,
    .work = {.by = WorkOf::pool}};

// y = mean of each window, padding is 0
inline constexpr Schema average_pool{
    .kind = OpKind::average_pool,
    .inputs = "x", .outputs = "y",
    .input_gradient = "d_y -> d_x",
    .gradient = Gradient::joint, .divides = kSample | kOut,
    .work = {.by = WorkOf::pool}};

}  // namespace models::ops
