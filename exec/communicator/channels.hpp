#pragma once
// Channels by which the interpreter keeps apart the communicators of one group. Collectives have
// the number of their stream, which is smaller than all of these.

namespace exec {

inline constexpr int kServerChannel = 2000;   // servers apart and workers use different streams
inline constexpr int kBarrierChannel = 3000;
inline constexpr int kMessageChannel = 4000;  // + tag: both ends run on different streams

}  // namespace exec
