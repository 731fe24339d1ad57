#pragma once
// Address models: where a framework's allocator would put each buffer, and so how much memory it
// reserves from the device. Arena is the native framework's (the host executor places its buffers
// with it, at the very offsets returned here); CachingAllocator is PyTorch's. One interface:
//   allocate(bytes) -> offset      free(offset)      reserved()      reset()
// Both are deterministic functions of the sequence of calls: best fit, ties by lowest offset. Not
// thread-safe.
//
// Limitations: one stream per pool (a block freed is at once reusable); no expandable segments, no
// roundup_power2_divisions, max_split_size unlimited (PyTorch's defaults).

#include <cstdint>
#include <limits>
#include <vector>

#include "core/units.hpp"

namespace program {

enum class AllocatorKind : std::uint8_t { arena, caching };

// Offsets that are taken, and their blocks: open addressing with linear probes, at most half full,
// because a replay looks one up at every allocation and release.
class Taken {
 public:
  static constexpr int kAbsent = -1;

  int find(std::int64_t offset) const;
  void insert(std::int64_t offset, int block);  // REQUIRES: absent
  int remove(std::int64_t offset);              // kAbsent if it was

 private:
  struct Slot {
    std::int64_t offset = 0;
    int block = kAbsent;
  };
  std::size_t home(std::int64_t offset) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two, or none
  std::size_t count_ = 0;
};

// Blocks in address order, linked within their segment; free blocks ordered by (bytes, offset).
// The mechanism that both models share: best fit, split, merge with free neighbours.
class BlockList {
 public:
  static constexpr int kNoBlock = -1;

  // A new segment, wholly free; appended to the address order.
  int add_segment(std::int64_t offset, std::int64_t bytes);
  // Grows the last segment until its last block is free and of at least `bytes`; that block.
  int grow(std::int64_t bytes);
  // Smallest free block of at least `bytes`, lowest offset on ties; kNoBlock if there is none.
  // before_last: not the block at the highest offset. O(log free blocks).
  int best_fit(std::int64_t bytes, bool before_last = false) const;
  std::int64_t bytes(int block) const { return blocks_[static_cast<std::size_t>(block)].bytes; }
  std::int64_t end(int block) const {
    const Block& b = blocks_[static_cast<std::size_t>(block)];
    return b.offset + b.bytes;
  }
  // Takes the free block, its first `keep` bytes alone (the rest stays free); returns its offset.
  std::int64_t take(int block, std::int64_t keep);
  bool holds(std::int64_t offset) const { return taken_.find(offset) != Taken::kAbsent; }
  // REQUIRES: holds(offset). Merges with free neighbours.
  void give(std::int64_t offset);
  // Removes segments that are one free block; returns their bytes.
  std::int64_t release_free_segments();
  // Offset and bytes of every free block, smallest first. With the segments (they only come) and
  // the caller's table of taken offsets this is all that later calls depend on: taken blocks tile
  // the rest.
  void append_state(std::vector<std::int64_t>& state) const;

 private:
  struct Block {
    std::int64_t offset = 0, bytes = 0;
    int previous = kNoBlock, next = kNoBlock;  // of the same segment
    bool free = false;
  };
  struct Free {
    std::int64_t bytes, offset;
    int block;
    friend auto operator<=>(const Free&, const Free&) = default;
  };
  Block& at(int block) { return blocks_[static_cast<std::size_t>(block)]; }
  int new_block(Block block);
  void mark_free(int block);
  void unmark_free(int block);
  std::vector<Free>::iterator entry_of(int block);
  // The free block `was` goes, `now` stands for it or for what it grew into.
  void replace_free(int was, int now, std::int64_t bytes);
  void unlink(int block);

  std::vector<Block> blocks_;
  int last_ = kNoBlock;                          // at the highest offset
  std::vector<int> unused_;                      // recycled entries of blocks_
  std::vector<Free> free_;                       // sorted
  Taken taken_;
};

// One range that grows at its end, alignment 256 B. Buffers allocated first lie at the bottom.
// reserved() = the range's high-water mark. The free end counts as boundless: it is used when no
// hole fits, and extended rather than stepped over. So a step places its buffers alike whether the
// range has yet to grow or has grown in the steps before.
class Arena {
 public:
  static constexpr std::int64_t kAlignment = 256;  // what cudaMalloc guarantees [cuda guide]

  explicit Arena(core::Bytes = {}) {}  // boundless, whatever the device has

  std::int64_t allocate(core::Bytes bytes);
  void free(std::int64_t offset) { list_.give(offset); }
  core::Bytes reserved() const { return core::Bytes(end_); }
  void reset() { *this = Arena(); }
  void append_state(std::vector<std::int64_t>& state) const { list_.append_state(state); }

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
  static constexpr std::int64_t kOutOfMemory = -1;
  static constexpr core::Bytes kUnlimited{std::numeric_limits<std::int64_t>::max()};

  explicit CachingAllocator(core::Bytes capacity = kUnlimited) : capacity_(capacity.value()) {}

  // kOutOfMemory when the capacity is exhausted even after free segments were returned.
  std::int64_t allocate(core::Bytes bytes);
  void free(std::int64_t offset) { (small_.holds(offset) ? small_ : large_).give(offset); }
  core::Bytes reserved() const { return core::Bytes(reserved_); }
  void empty_cache();
  // From here on the device has all that is asked of it.
  void lift_capacity() { capacity_ = kUnlimited.value(); }
  void reset() { *this = CachingAllocator(core::Bytes(capacity_)); }
  void append_state(std::vector<std::int64_t>& state) const;

 private:
  // A segment from the device for a request of `bytes`, or kNoBlock.
  int new_segment(BlockList& pool, std::int64_t bytes);

  BlockList small_, large_;
  std::int64_t capacity_;
  std::int64_t reserved_ = 0;
  std::int64_t next_offset_ = 0;  // addresses are never reused, so ties order by age of segment
};

}  // namespace program
