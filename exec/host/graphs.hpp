#pragma once
// Kernels of operator graphs: images, what joins branches, and ends of models that are no
// transformer's. Conventions of kernels.hpp; images are x[samples, channels, height, width]. Every
// result but batch_norm's depends on its own sample alone, whatever the batch; parameter gradients
// add up samples in ascending order, so that with f32 or f64 gradients a batch split in two calls
// gives the bits of one.

#include <cstdint>
#include <span>

#include "core/units.hpp"
#include "exec/host/view.hpp"
#include "models/extent.hpp"

namespace exec::host {

// Windows over x. Padding is 0 (an average counts it, a maximum passes over it) and narrower than
// the window.
struct WindowShape {
  std::int64_t samples = 0, channels = 0, height = 0, width = 0;  // of x
  models::Extent kernel = 1, stride = 1, padding = 0;
  std::int64_t out_height() const {
    return (height + 2 * padding.height - kernel.height) / stride.height + 1;
  }
  std::int64_t out_width() const {
    return (width + 2 * padding.width - kernel.width) / stride.width + 1;
  }
  std::int64_t places() const { return out_height() * out_width(); }  // of one channel of y
  std::int64_t plane() const { return height * width; }               // of one channel of x
};

// ---- convolution: w[outputs, channels / groups, windows] ---------------------------------

struct ConvolutionShape {
  WindowShape x;
  std::int64_t outputs = 0, groups = 1;               // channels of y; blocks that see only theirs
  std::int64_t n() const { return outputs / groups; }
  std::int64_t inputs() const { return x.channels / groups; }
  std::int64_t k() const { return inputs() * x.kernel.area(); }
};
// y[samples, outputs, places] = x * w (+ bias, one per output): for each sample and group a product
// of w and the windows, of which as many as 4096 places need are copied into the workspace at a
// time [chetlur2014] section 3.
void convolution(View y, View x, View w, View bias, const ConvolutionShape& s, Workspace ws);
// dx (=|+=) the windows of w^T dy, added where they lie.
void convolution_input_gradient(View dx, View dy, View w, const ConvolutionShape& s,
                                bool accumulate, Workspace ws);
// dw += dy windows^T; db += sums of dy, where there is a bias.
void convolution_weight_gradient(View dw, View db, View dy, View x, const ConvolutionShape& s,
                                 Workspace ws);
// For all three, any types.
core::Bytes convolution_workspace(core::DType activation, const ConvolutionShape& s);

// ---- pools --------------------------------------------------------------------------------------

inline constexpr std::int64_t kLargestMaximum = 256;  // places are what a byte tells apart
// y = greatest of each window, NaN above all; chosen (u8, may be absent): its place in the window,
// the first of equals. REQUIRES with chosen: at most kLargestMaximum places.
void max_pool(View y, View chosen, View x, const WindowShape& s, Workspace ws);
// dx (=|+=) dy where it was chosen, summed over windows.
void max_pool_gradient(View dx, View dy, View chosen, const WindowShape& s, bool accumulate,
                       Workspace ws);
// y = sum of each window / its places.
void average_pool(View y, View x, const WindowShape& s, Workspace ws);
void average_pool_gradient(View dx, View dy, const WindowShape& s, bool accumulate, Workspace ws);
core::Bytes pool_workspace(core::DType activation, const WindowShape& s);

// ---- local response normalisation [alexnet] section 3.3 -----------------------------------------

// Of x[samples, channels, places].
struct ResponseShape { std::int64_t samples = 0, channels = 0, places = 0, window = 5; };
// y = x / d^0.75, d = 2 + 1e-4 / w sum of x^2 over the w channels from c - w / 2 on that exist.
void local_response_norm(View y, View x, const ResponseShape& s, Workspace ws);
// dx (=|+=) dy d^-0.75 - 1.5e-4 / w x sum of dy x d^-1.75 over the channels whose sum x is in.
void local_response_norm_gradient(View dx, View dy, View x, const ResponseShape& s,
                                  bool accumulate, Workspace ws);
core::Bytes local_response_workspace(core::DType activation, const ResponseShape& s);

// ---- batch normalisation [batchnorm] ------------------------------------------------------------

// Of x[samples, channels, places].
struct ChannelShape { std::int64_t samples = 0, channels = 0, places = 0; };
// y = (x - mean) rstd gamma + beta, rstd = 1 / sqrt(variance + epsilon): mean and variance of each
// channel over samples and places, in double.
void batch_norm(View y, View x, View gamma, View beta, const ChannelShape& s, double epsilon);
// d_x (=|+=) gamma rstd (d_y - mean(d_y) - h mean(d_y h)), h = (x - mean) rstd. Where d_gamma and
// d_beta are there, += sums of d_y h and of d_y. d_x may be d_y, or absent.
void batch_norm_gradient(View dx, View dgamma, View dbeta, View dy, View x, View gamma,
                         const ChannelShape& s, double epsilon, bool accumulate);

// The same over the samples of `ranks` ranks, of which each has the sums of its own: sums[2,
// channels] (f64) = sums of x and of x^2 over samples and places.
void channel_sums(View sums, View x, const ChannelShape& s);
// d_x (=|+=) what the sums add to it: d_sum + 2 x d_squares.
void channel_sums_gradient(View dx, View dsums, View x, const ChannelShape& s, bool accumulate);
// y = batch_norm's, of the mean and the variance that the ranks' sums together have.
void channel_norm(View y, View x, View sums, View gamma, View beta, const ChannelShape& s,
                  std::int64_t ranks, double epsilon);
// d_x, d_sums (=|+=), the latter this rank's part of a sum over ranks. Where d_gamma and d_beta are
// there, += this rank's sums of d_y h and of d_y.
void channel_norm_gradient(View dx, View dsums, View dgamma, View dbeta, View dy, View x, View sums,
                           View gamma, const ChannelShape& s, std::int64_t ranks, double epsilon,
                           bool accumulate);

// ---- dropout ------------------------------------------------------------------------------------

// The draw of element i of a sample is that of (seed, stream, sample i): the same on every rank,
// and again when it is computed again.
struct Draws {
  std::uint64_t seed = 0, stream = 0;
  std::int64_t first_sample = 0;       // of these, counted over all steps
};
// Rows of columns [first, first + width) of rows of `columns`, of the same samples.
struct DropoutShape { std::int64_t samples = 1, rows = 1, columns = 1, first = 0, width = 1; };
// mask (u8) = 1 with probability 1/2, else 0; y = 2 x mask.
void dropout(View y, View mask, View x, const DropoutShape& shape, const Draws& draws);
// dx (=|+=) 2 dy mask; dx may be dy.
void dropout_gradient(View dx, View dy, View mask, std::int64_t n, bool accumulate);

// ---- joins and ends -----------------------------------------------------------------------------

// Columns [first, first + width) of rows x columns elements.
struct ColumnBlock { std::int64_t rows = 0, columns = 0, first = 0, width = 0; };
// wide's block = narrow[rows, width], and back (=|+=).
void put_columns(View wide, View narrow, const ColumnBlock& block);
void take_columns(View narrow, View wide, const ColumnBlock& block, bool accumulate);
// wide (=|+=) narrow in the block, and 0 elsewhere.
void add_columns(View wide, View narrow, const ColumnBlock& block, bool accumulate);

// y[samples, n] = the first of each sample's rows; dx (=|+=) dy there, and 0 elsewhere.
void first_token(View y, View x, std::int64_t samples, std::int64_t rows, std::int64_t n);
void first_token_gradient(View dx, View dy, std::int64_t samples, std::int64_t rows,
                          std::int64_t n, bool accumulate);

}  // namespace exec::host
