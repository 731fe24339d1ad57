#include "sim/program/allocator.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "sim/program/collective.hpp"

namespace program {

namespace {

// std::lower_bound, each of whose steps moves without a branch.
template <class It, class Entry>
It first_not_below(It first, It last, const Entry& entry) {
  auto n = last - first;
  while (n > 0) {
    const auto half = n / 2;
    const bool below = first[half] < entry;
    first += below ? half + 1 : 0;
    n = below ? n - half - 1 : half;
  }
  return first;
}

}  // namespace

int BlockList::new_block(Block block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<int>(blocks_.size()) - 1;
  }
  const int index = unused_.back();
  unused_.pop_back();
  at(index) = block;
  return index;
}

void BlockList::mark_free(int block) {
  Block& b = at(block);
  b.free = true;
  const Free entry{b.bytes, b.offset, block};
  free_.insert(std::lower_bound(free_.begin(), free_.end(), entry), entry);
}

BlockList::FreeList::iterator BlockList::entry_of(int block) {
  const Free entry{at(block).bytes, at(block).offset, block};
  const auto found = std::lower_bound(free_.begin(), free_.end(), entry);
  PLANNER_CHECK(found != free_.end() && found->block == block);
  return found;
}

void BlockList::unmark_free(int block) {
  free_.erase(entry_of(block));
  at(block).free = false;
}

// One entry moves to its new place: those between shift by one.
void BlockList::replace_free(int was, int now, std::int64_t bytes) {
  const auto old = entry_of(was);
  at(was).free = false;
  at(now).free = true;
  at(now).bytes = bytes;
  const Free entry{bytes, at(now).offset, now};
  if (entry < *old) {
    const auto place = std::lower_bound(free_.begin(), old, entry);
    std::move_backward(place, old, old + 1);
    *place = entry;
  } else {
    const auto place = std::lower_bound(old + 1, free_.end(), entry);
    std::move(old + 1, place, old);
    *(place - 1) = entry;
  }
}

int BlockList::add_segment(std::int64_t offset, std::int64_t bytes) {
  const int block = new_block({offset, bytes, kNoBlock, kNoBlock, false});
  last_ = block;
  mark_free(block);
  return block;
}

int BlockList::grow(std::int64_t bytes) {
  if (last_ == kNoBlock) return add_segment(0, bytes);
  if (at(last_).free) {
    replace_free(last_, last_, std::max(at(last_).bytes, bytes));
    return last_;
  }
  const int block = new_block({end(last_), bytes, last_, kNoBlock, false});
  at(last_).next = block;
  last_ = block;
  mark_free(block);
  return block;
}

int BlockList::best_fit(std::int64_t bytes, bool before_last) const {
  auto found = std::lower_bound(free_.begin(), free_.end(), Free{bytes, 0, 0});
  if (before_last && found != free_.end() && found->block == last_) ++found;
  return found == free_.end() ? kNoBlock : found->block;
}

Place BlockList::take(int block, std::int64_t keep) {
  const std::int64_t rest = at(block).bytes - keep;
  PLANNER_CHECK(rest >= 0);
  if (rest == 0) {
    unmark_free(block);
  } else {
    const int old_next = at(block).next;
    const int tail = new_block({at(block).offset + keep, rest, block, old_next, false});
    replace_free(block, tail, rest);
    at(block).bytes = keep;
    at(block).next = tail;
    if (block == last_) last_ = tail;
    if (old_next != kNoBlock) at(old_next).previous = tail;
  }
  return {at(block).offset, block};
}

// The block below takes its place in the order of addresses.
void BlockList::unlink(int block) {
  const Block& gone = at(block);
  at(gone.previous).next = gone.next;
  if (gone.next != kNoBlock) at(gone.next).previous = gone.previous;
  if (block == last_) last_ = gone.previous;
  unused_.push_back(block);
}

void BlockList::give(int block) {
  PLANNER_CHECK(!at(block).free, "free of a block that is not taken");
  const auto free_neighbour = [&](int b) { return b != kNoBlock && at(b).free; };
  const int below = at(block).previous, above = at(block).next;
  std::int64_t bytes = at(block).bytes;
  const bool takes_above = free_neighbour(above);
  if (takes_above) bytes += at(above).bytes;
  if (free_neighbour(below)) {         // it takes over this one, and the one above
    if (takes_above) unmark_free(above);
    replace_free(below, below, at(below).bytes + bytes);
  } else if (takes_above) {
    replace_free(above, block, bytes);
  } else {
    mark_free(block);
  }
  if (takes_above) unlink(above);
  if (free_neighbour(below)) unlink(block);
}

std::int64_t BlockList::release_free_segments() {
  std::int64_t released = 0;
  last_ = kNoBlock;  // of no further use: only lists that grow() have one, and they never release
  std::erase_if(free_, [&](const Free& entry) {
    const Block& b = at(entry.block);
    if (b.previous != kNoBlock || b.next != kNoBlock) return false;
    released += b.bytes;
    at(entry.block).free = false;
    unused_.push_back(entry.block);
    return true;
  });
  return released;
}

Place Arena::allocate(core::Bytes bytes) {
  const std::int64_t need = padded(std::max<std::int64_t>(bytes.value(), 1), kAlignment);
  int block = list_.best_fit(need, true);
  if (block == BlockList::kNoBlock) {
    block = list_.grow(need);
    end_ = list_.end(block);
  }
  return list_.take(block, need);
}

namespace {

std::int64_t segment_bytes(std::int64_t bytes) {
  if (bytes <= CachingAllocator::kSmallSize) return CachingAllocator::kSmallBuffer;
  if (bytes < CachingAllocator::kMinLargeAlloc) return CachingAllocator::kLargeBuffer;
  return padded(bytes, CachingAllocator::kRoundLarge);
}

}  // namespace

int CachingAllocator::new_segment(BlockList& pool, std::int64_t bytes) {
  const std::int64_t size = segment_bytes(bytes);
  if (size > capacity_ - reserved_) empty_cache();
  if (size > capacity_ - reserved_) return BlockList::kNoBlock;
  const int block = pool.add_segment(next_offset_, size);
  next_offset_ += size;
  reserved_ += size;
  return block;
}

// Places of the small pool have even blocks, those of the large one odd ones.
Place CachingAllocator::allocate(core::Bytes bytes) {
  const std::int64_t need = padded(std::max<std::int64_t>(bytes.value(), 1), kMinBlockSize);
  const bool is_small = need <= kSmallSize;
  BlockList& pool = is_small ? small_ : large_;
  int block = pool.best_fit(need);
  if (block == BlockList::kNoBlock) block = new_segment(pool, need);
  if (block == BlockList::kNoBlock) return kOutOfMemory;
  const std::int64_t rest = pool.bytes(block) - need;
  const bool split = is_small ? rest >= kMinBlockSize : rest > kSmallSize;
  const Place place = pool.take(block, split ? need : pool.bytes(block));
  return {place.offset, 2 * place.block + (is_small ? 0 : 1)};
}

void CachingAllocator::free(const Place& place) {
  (place.block % 2 == 0 ? small_ : large_).give(place.block / 2);
}

void CachingAllocator::empty_cache() {
  reserved_ -= small_.release_free_segments();
  reserved_ -= large_.release_free_segments();
}

}  // namespace program
