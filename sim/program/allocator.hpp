#pragma once
// Address models: where a framework's allocator would put each buffer, and so how much memory it
// reserves from the device. Arena is the native framework's (the host executor places its buffers
// with it, at the very offsets returned here); CachingAllocator is PyTorch's. One interface:
//   allocate(bytes) -> place      free(place)      reserved()      reset()
// Both are deterministic functions of the sequence of calls: best fit, ties by lowest offset. Not
// thread-safe.
//
// Limitations: one stream per pool (a block freed is at once reusable); no expandable segments, no
// roundup_power2_divisions, max_split_size unlimited (PyTorch's defaults).

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/units.hpp"

namespace program {

enum class AllocatorKind : std::uint8_t { arena, caching };

// What was allocated: where, and the block by which its allocator knows it.
struct Place {
  std::int64_t offset = 0;
  int block = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

// Blocks in address order, linked within their segment. The mechanism that both models share: best
// fit, split, merge with free neighbours. Free blocks are kept apart by the power of two that is
// not above their size, in no order: a fit looks at those of its own power, then of higher ones.
class BlockList {
 public:
  static constexpr int kNoBlock = -1;

  // A new segment, wholly free; appended to the address order.
  int add_segment(std::int64_t offset, std::int64_t bytes);
  // Grows the last segment until its last block is free and of at least `bytes`; that block.
  int grow(std::int64_t bytes);
  // Smallest free block of at least `bytes`, lowest offset on ties; kNoBlock if there is none.
  // before_last: not the block at the highest offset.
  int best_fit(std::int64_t bytes, bool before_last = false) const;
  std::int64_t bytes(int block) const { return at(block).bytes; }
  std::int64_t end(int block) const { return at(block).offset + at(block).bytes; }
  // Takes the free block, its first `keep` bytes alone (the rest stays free).
  Place take(int block, std::int64_t keep);
  // REQUIRES: the block is taken. Merges it with free neighbours.
  void give(int block);
  // Removes segments that are one free block; returns their bytes.
  std::int64_t release_free_segments();
  // Offset and bytes of every free block, smallest first. With the segments (they only come) and
  // the caller's table of taken offsets this is all that later calls depend on: taken blocks tile
  // the rest. visit(number) -> whether to go on.
  template <class Visit>
  bool visit_state(Visit&& visit) const {
    if (!visit(static_cast<std::int64_t>(free_count_))) return false;
    for (const Free& entry : sorted_free())
      if (!visit(entry.offset) || !visit(entry.bytes)) return false;
    return true;
  }

 private:
  static constexpr int kTaken = -1;
  struct Block {
    std::int64_t offset = 0, bytes = 0;
    int previous = kNoBlock, next = kNoBlock;  // of the same segment
    int free_at = kTaken;                      // its place among the free ones of its power
    bool is_free() const { return free_at != kTaken; }
  };
  struct Free {
    std::int64_t bytes = 0, offset = 0;
    int block = kNoBlock;
    bool before(const Free& other) const {
      return bytes != other.bytes ? bytes < other.bytes : offset < other.offset;
    }
  };
  static constexpr std::size_t kPowers = 63;  // of positive sizes

  Block& at(int block) { return blocks_[static_cast<std::size_t>(block)]; }
  const Block& at(int block) const { return blocks_[static_cast<std::size_t>(block)]; }
  std::vector<Free> sorted_free() const;  // by bytes, then offset
  static std::size_t power(std::int64_t bytes);
  int new_block(Block block);
  void mark_free(int block);
  void unmark_free(int block);
  // The free block `was` goes, `now` stands for it or for what it grew into.
  void replace_free(int was, int now, std::int64_t bytes);
  void unlink(int block);

  std::vector<Block> blocks_;
  int last_ = kNoBlock;                          // at the highest offset
  std::vector<int> unused_;                      // recycled entries of blocks_
  std::array<std::vector<Free>, kPowers> free_;  // by power of two
  std::uint64_t any_free_ = 0;                   // bits by power
  std::size_t free_count_ = 0;
};

// One range that grows at its end, alignment 256 B. Buffers allocated first lie at the bottom.
// reserved() = the range's high-water mark. The free end counts as boundless: it is used when no
// hole fits, and extended rather than stepped over. So a step places its buffers alike whether the
// range has yet to grow or has grown in the steps before.
class Arena {
 public:
  static constexpr std::int64_t kAlignment = 256;  // what cudaMalloc guarantees [cuda guide]

  explicit Arena(core::Bytes = {}) {}  // boundless, whatever the device has

  Place allocate(core::Bytes bytes);
  void free(const Place& place) { list_.give(place.block); }
  core::Bytes reserved() const { return core::Bytes(end_); }
  void reset() { *this = Arena(); }
  template <class Visit>
  bool visit_state(Visit&& visit) const {
    return list_.visit_state(visit);
  }

 private:
  BlockList list_;
  std::int64_t end_ = 0;
};

// PyTorch's CUDACachingAllocator [c10/cuda/CUDACachingAllocator.cpp, c10/core/AllocatorConfig.h]:
// requests round up to 512 B; up to 1 MiB they come from the small pool of 2 MiB segments, else
// from the large pool of 20 MiB segments, or of own segments rounded to 2 MiB from 10 MiB up.
// Segments return to the device only when it has no more (or on empty_cache).
class CachingAllocator {
 public:
  static constexpr std::int64_t kMinBlockSize = 512;
  static constexpr std::int64_t kSmallSize = 1 << 20;       // largest request of the small pool
  static constexpr std::int64_t kSmallBuffer = 2 << 20;     // its segments
  static constexpr std::int64_t kLargeBuffer = 20 << 20;    // segments below kMinLargeAlloc
  static constexpr std::int64_t kMinLargeAlloc = 10 << 20;  // from here up, a segment of its own
  static constexpr std::int64_t kRoundLarge = 2 << 20;      // rounded to this
  static constexpr Place kOutOfMemory{-1, -1};
  static constexpr core::Bytes kUnlimited{std::numeric_limits<std::int64_t>::max()};

  explicit CachingAllocator(core::Bytes capacity = kUnlimited) : capacity_(capacity.value()) {}

  // kOutOfMemory when the capacity is exhausted even after free segments were returned.
  Place allocate(core::Bytes bytes);
  void free(const Place& place);
  core::Bytes reserved() const { return core::Bytes(reserved_); }
  void empty_cache();
  // From here on the device has all that is asked of it.
  void lift_capacity() { capacity_ = kUnlimited.value(); }
  void reset() { *this = CachingAllocator(core::Bytes(capacity_)); }
  template <class Visit>
  bool visit_state(Visit&& visit) const {
    return visit(reserved_) && small_.visit_state(visit) && large_.visit_state(visit);
  }

 private:
  // A segment from the device for a request of `bytes`, or kNoBlock.
  int new_segment(BlockList& pool, std::int64_t bytes);

  BlockList small_, large_;
  std::int64_t capacity_;
  std::int64_t reserved_ = 0;
  std::int64_t next_offset_ = 0;  // addresses are never reused, so ties order by age of segment
};

}  // namespace program
