#pragma once
// Watch: what may end a rank's wait for its device although the device goes on: another rank, or a
// communication library. Thread-safety: as its owner says.

#include "core/units.hpp"
#include "exec/cuda/api/api.hpp"

namespace exec::cuda {

class Watch {
 public:
  virtual ~Watch() = default;
  // Called again and again while a thread waits; throws what ends the wait.
  virtual void look() = 0;
  // All streams of the backend have done what they were given.
  virtual void drained() = 0;
  // From here on what is given is kept and not done, or done again.
  virtual void keeps(bool on) noexcept = 0;
  // All that was kept has been given to this stream.
  virtual void launched(StreamHandle stream) = 0;
  // Memory of the device that it has taken for itself.
  virtual core::Bytes taken() const = 0;
};

}  // namespace exec::cuda
