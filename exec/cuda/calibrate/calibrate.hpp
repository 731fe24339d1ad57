#pragma once
// calibrate_gpu: measures a GPU's products, attention, memory, launches and transfers, and makes
// the profile that predicts them: the shipped profile of that GPU with efficiencies as measured. A
// point is a number of calls and one wait; its median, spread and repeats are kept in the book,
// from which an interrupted calibration goes on. Nothing else should run on the GPU.

#include "exec/calibrate/calibrate.hpp"
#include "exec/cuda/api/api.hpp"

namespace exec::cuda {

// The shipped profile for a device of this name; a problem that lists them where there is none.
core::Result<hw_profiles::Profile> shipped_profile(const std::string& device);

// Problems: a GPU without a shipped profile, a book of another machine. Throws DeviceFailure.
// small: sizes for tests, where a product of 4096 rows would take minutes.
core::Result<Calibration> calibrate_gpu(Api& api, BookOptions options, bool small = false);

}  // namespace exec::cuda
