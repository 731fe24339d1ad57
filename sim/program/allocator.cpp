#include "sim/program/allocator.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/check.hpp"
#include "sim/program/collective.hpp"

namespace program {

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

std::size_t BlockList::power(std::int64_t bytes) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(bytes))) - 1;
}

void BlockList::mark_free(int block) {
  Block& b = at(block);
  const std::size_t own = power(b.bytes);
  b.free_at = static_cast<int>(free_[own].size());
  free_[own].push_back({b.bytes, b.offset, block});
  any_free_ |= std::uint64_t{1} << own;
  ++free_count_;
}

// The last one of its power takes its place.
void BlockList::unmark_free(int block) {
  Block& b = at(block);
  const std::size_t own = power(b.bytes);
  std::vector<Free>& alike = free_[own];
  const Free last = alike.back();
  alike[static_cast<std::size_t>(b.free_at)] = last;
  at(last.block).free_at = b.free_at;
  alike.pop_back();
  if (alike.empty()) any_free_ &= ~(std::uint64_t{1} << own);
  b.free_at = kTaken;
  --free_count_;
}

void BlockList::replace_free(int was, int now, std::int64_t bytes) {
  const std::size_t own = power(at(was).bytes);
  if (own != power(bytes)) {
    unmark_free(was);
    at(now).bytes = bytes;
    return mark_free(now);
  }
  const int place = std::exchange(at(was).free_at, kTaken);
  at(now).free_at = place;
  at(now).bytes = bytes;
  free_[own][static_cast<std::size_t>(place)] = {bytes, at(now).offset, now};
}

std::vector<BlockList::Free> BlockList::sorted_free() const {
  std::vector<Free> all;
  all.reserve(free_count_);
  for (std::uint64_t rest = any_free_; rest != 0; rest &= rest - 1) {
    const auto& alike = free_[static_cast<std::size_t>(std::countr_zero(rest))];
    const auto first = all.insert(all.end(), alike.begin(), alike.end());
    std::sort(first, all.end(), [](const Free& a, const Free& b) { return a.before(b); });
  }
  return all;
}

int BlockList::add_segment(std::int64_t offset, std::int64_t bytes) {
  const int block = new_block({offset, bytes});
  last_ = block;
  mark_free(block);
  return block;
}

int BlockList::grow(std::int64_t bytes) {
  if (last_ == kNoBlock) return add_segment(0, bytes);
  if (at(last_).is_free()) {
    replace_free(last_, last_, std::max(at(last_).bytes, bytes));
    return last_;
  }
  const int block = new_block({end(last_), bytes, last_});
  at(last_).next = block;
  last_ = block;
  mark_free(block);
  return block;
}

int BlockList::best_fit(std::int64_t bytes, bool before_last) const {
  const int skipped = before_last ? last_ : kNoBlock;
  const std::size_t own = power(bytes);
  for (std::uint64_t rest = any_free_ >> own << own; rest != 0; rest &= rest - 1) {
    const Free* best = nullptr;
    for (const Free& f : free_[static_cast<std::size_t>(std::countr_zero(rest))])
      if (f.bytes >= bytes && f.block != skipped && (best == nullptr || f.before(*best))) best = &f;
    if (best != nullptr) return best->block;
  }
  return kNoBlock;
}

Place BlockList::take(int block, std::int64_t keep) {
  const std::int64_t rest = at(block).bytes - keep;
  PLANNER_CHECK(rest >= 0);
  if (rest == 0) {
    unmark_free(block);
  } else {
    const int old_next = at(block).next;
    const int tail = new_block({at(block).offset + keep, rest, block, old_next});
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
  PLANNER_CHECK(!at(block).is_free(), "free of a block that is not taken");
  const auto free_neighbour = [&](int b) { return b != kNoBlock && at(b).is_free(); };
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
  for (const std::vector<Free>& alike : free_)
    for (std::size_t i = alike.size(); i-- > 0;) {
      const int block = alike[i].block;
      const Block& b = at(block);
      if (b.previous != kNoBlock || b.next != kNoBlock) continue;
      released += b.bytes;
      unmark_free(block);
      unused_.push_back(block);
    }
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
