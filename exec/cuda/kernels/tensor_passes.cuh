#pragma once
// What both passes of attention on tensor cores share. Kernels are made for each Form: plainly
// causal attention; windows, chunks, no mask, capped scores, linear biases and sinks; the same of
// keys that lie apart.
//
// Registers of a thread (of 256, so that two blocks fit a multiprocessor) in the plain form, by
// head size; nothing spills (-Xptxas -v, CUDA 13.0, bf16; f16 alike), and shared bytes of a block:
//                      32    64    80    96   128
//   forward     sm_80  176   238   216   240   228
//               sm_90  166   238   216   242   233
//   bytes            20480 36864 33792 39936 69632
//   query       sm_80  164   236   158   186   216
//   gradient    sm_90  167   237   160   182   212
//   key         sm_80  185   248   182   189   226
//   gradient    sm_90  182   245   176   198   219
//   bytes            30720 55296 45056 53248 69632, key gradient 512 more
// sm_86 takes what sm_80 does; there its 100 KiB leave one block of 55296 bytes or more.
#include "exec/cuda/kernels/attention_tiles.cuh"

namespace exec::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634F;
constexpr int kHeadFits = 64;          // two tiles of rows a warp up to here: registers

template <class A, int kHead, class Of>
constexpr std::size_t shared_of = static_cast<std::size_t>(Of::kRows) *
                                  static_cast<std::size_t>(Rows<A, kHead>::kLd) * sizeof(A);

// The first value of a place: behind the keys, from where an address is kept already.
PLANNER_DEVICE int64_t v_at(const Heads& s, const Place& at) {
  return at.k + static_cast<int64_t>(s.kv_heads) * s.d;
}

// What a block of threads computes: query rows [first, first + Of::kOwn) of one head, of which this
// warp has those from `own` on, with the tiles of keys [start, tiles). Blocks with the latest rows,
// which see most keys, come first.
template <Form kForm, class Of>
struct QueryBlock {
  static constexpr bool kMasked = kForm != Form::plain;
  static constexpr int kOfWarp = 16 * Of::kTiles;
  Place at;
  int seq, key_rows, first, own, own_end;  // own_end: of the keys that own rows see
  int tiles, start;
  float slope;                         // of linear biases
  PLANNER_DEVICE QueryBlock(const HeadsOf<kForm>& s, const Slopes& slopes)
      : at(s, blockIdx.z, blockIdx.y), seq(static_cast<int>(s.seq)),
        key_rows(static_cast<int>(s.key_rows())),
        first(static_cast<int>(gridDim.x - 1 - blockIdx.x) * Of::kOwn),
        own(first + static_cast<int>(threadIdx.x / 32) * kOfWarp),
        own_end(kMasked ? keys_before<kForm>(s, own + kOfWarp) : own + kOfWarp),
        tiles(tiles_of<kForm>(s, first + Of::kOwn, Of::kMet)),
        start(kMasked ? static_cast<int>(s.first_key(first)) / Of::kMet : 0),
        slope(kMasked && slopes.count > 0 ? static_cast<float>(slopes.of[blockIdx.y]) : 0) {}

  // Tile j of keys, and of values behind it.
  template <class R, class A>
  PLANNER_DEVICE void fetch(const HeadsOf<kForm>& s, const A* qkv, A* to, int j) const {
    const A* const keys = keys_of(s, qkv);
    R::template fetch<Of::kMet>(to, keys + at.k, s.key_ld(), j * Of::kMet, key_rows, s.d);
    R::template fetch<Of::kMet>(to + Of::kMet * R::kLd, keys + v_at(s, at), s.key_ld(),
                                j * Of::kMet, key_rows, s.d);
  }
};

// body.template operator()<A, kHead>().
template <Form kForm, class Body>
void with_head(core::DType type, int d, Body&& body) {
  const auto of = [&]<class A>() {
    if constexpr (kForm != Form::plain) {
      if (d <= 64) return body.template operator()<A, 64>();
    } else {
      if (d <= 32) return body.template operator()<A, 32>();
      if (d <= 64) return body.template operator()<A, 64>();
      if (d <= 80) return body.template operator()<A, 80>();
      if (d <= 96) return body.template operator()<A, 96>();
    }
    return body.template operator()<A, 128>();
  };
  return type == core::DType::bf16 ? of.template operator()<bf16>() : of.template operator()<f16>();
}

Extent grid_of(int64_t rows, int each, int heads, int64_t samples) {
  return {blocks_of(rows, each), static_cast<unsigned>(heads), static_cast<unsigned>(samples)};
}

}  // namespace
}  // namespace exec::cuda
