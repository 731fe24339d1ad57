#include "sim/program/allocator.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "sim/program/collective.hpp"

namespace program {

// Offsets are multiples of 256 or 512: the product's high bits spread them [knuth, 6.4].
std::size_t Taken::home(std::int64_t offset) const {
  const std::uint64_t mixed = static_cast<std::uint64_t>(offset) * 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(mixed >> 32) & (slots_.size() - 1);
}

int Taken::find(std::int64_t offset) const {
  if (slots_.empty()) return kAbsent;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = home(offset); slots_[i].block != kAbsent; i = (i + 1) & mask)
    if (slots_[i].offset == offset) return slots_[i].block;
  return kAbsent;
}

void Taken::insert(std::int64_t offset, int block) {
  if (2 * (count_ + 1) > slots_.size()) grow();
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = home(offset);
  while (slots_[i].block != kAbsent) i = (i + 1) & mask;
  slots_[i] = {offset, block};
  ++count_;
}

// What follows in the run of full slots moves up where its home allows, so that no gap hides it.
int Taken::remove(std::int64_t offset) {
  if (slots_.empty()) return kAbsent;
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = home(offset);
  while (slots_[i].block != kAbsent && slots_[i].offset != offset) i = (i + 1) & mask;
  const int block = slots_[i].block;
  if (block == kAbsent) return kAbsent;
  --count_;
  for (std::size_t j = (i + 1) & mask; slots_[j].block != kAbsent; j = (j + 1) & mask) {
    const std::size_t reach = (j - home(slots_[j].offset)) & mask;
    if (reach < ((j - i) & mask)) continue;
    slots_[i] = slots_[j];
    i = j;
  }
  slots_[i] = {};
  return block;
}

void Taken::grow() {
  std::vector<Slot> old(std::max<std::size_t>(16, 2 * slots_.size()));
  old.swap(slots_);
  count_ = 0;
  for (const Slot& slot : old)
    if (slot.block != kAbsent) insert(slot.offset, slot.block);
}

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

std::vector<BlockList::Free>::iterator BlockList::entry_of(int block) {
  const Free entry{at(block).bytes, at(block).offset, block};
  const auto found = std::lower_bound(free_.begin(), free_.end(), entry);
  PLANNER_CHECK(found != free_.end() && *found == entry);
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

std::int64_t BlockList::take(int block, std::int64_t keep) {
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
  taken_.insert(at(block).offset, block);
  return at(block).offset;
}

// The block below takes its place in the order of addresses.
void BlockList::unlink(int block) {
  const Block& gone = at(block);
  at(gone.previous).next = gone.next;
  if (gone.next != kNoBlock) at(gone.next).previous = gone.previous;
  if (block == last_) last_ = gone.previous;
  unused_.push_back(block);
}

void BlockList::give(std::int64_t offset) {
  const int block = taken_.remove(offset);
  PLANNER_CHECK(block != Taken::kAbsent, "free of an offset that is not taken");
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

void BlockList::append_state(std::vector<std::int64_t>& state) const {
  state.push_back(static_cast<std::int64_t>(free_.size()));
  for (const Free& entry : free_) {
    state.push_back(entry.offset);
    state.push_back(entry.bytes);
  }
}

std::int64_t Arena::allocate(core::Bytes bytes) {
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

std::int64_t CachingAllocator::allocate(core::Bytes bytes) {
  const std::int64_t need = padded(std::max<std::int64_t>(bytes.value(), 1), kMinBlockSize);
  const bool is_small = need <= kSmallSize;
  BlockList& pool = is_small ? small_ : large_;
  int block = pool.best_fit(need);
  if (block == BlockList::kNoBlock) block = new_segment(pool, need);
  if (block == BlockList::kNoBlock) return kOutOfMemory;
  const std::int64_t rest = pool.bytes(block) - need;
  const bool split = is_small ? rest >= kMinBlockSize : rest > kSmallSize;
  return pool.take(block, split ? need : pool.bytes(block));
}

void CachingAllocator::empty_cache() {
  reserved_ -= small_.release_free_segments();
  reserved_ -= large_.release_free_segments();
}

void CachingAllocator::append_state(std::vector<std::int64_t>& state) const {
  state.push_back(reserved_);
  small_.append_state(state);
  large_.append_state(state);
}

}  // namespace program
