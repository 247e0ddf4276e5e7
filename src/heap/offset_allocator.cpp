#include "heap/offset_allocator.hpp"

#include <algorithm>
#include <iterator>

namespace xstage::memory {

OffsetAllocator::OffsetAllocator(std::size_t total_bytes) : total_bytes_(total_bytes), free_bytes_(total_bytes) {
  if (total_bytes > 0) {
    free_.emplace(0, total_bytes);
  }
}

std::optional<std::size_t> OffsetAllocator::allocate(std::size_t bytes, std::size_t alignment) {
  for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
    const auto [start, available] = *piece;
    const std::size_t skipped = (alignment - start % alignment) % alignment;
    // Two comparisons instead of a sum, which could overflow.
    if (skipped > available || bytes > available - skipped) {
      continue;
    }
    const std::size_t offset = start + skipped;
    const std::size_t behind = available - skipped - bytes;
    used_.emplace(offset, bytes);
    free_.erase(piece);
    if (skipped > 0) {
      free_.emplace(start, skipped);
    }
    if (behind > 0) {
      free_.emplace(offset + bytes, behind);
    }
    free_bytes_ -= bytes;
    return offset;
  }
  return std::nullopt;
}

bool OffsetAllocator::release(std::size_t offset, std::size_t bytes) {
  const auto piece = used_.find(offset);
  if (piece == used_.end() || piece->second != bytes) {
    return false;
  }
  used_.erase(piece);
  give_back(offset, bytes);
  return true;
}

/// Frees a range and joins it with the free ranges on either side.
void OffsetAllocator::give_back(std::size_t offset, std::size_t bytes) {
  free_bytes_ += bytes;
  const auto next = free_.find(offset + bytes);
  if (next != free_.end()) {
    bytes += next->second;
    free_.erase(next);
  }
  const auto above = free_.lower_bound(offset);
  if (above != free_.begin()) {
    const auto previous = std::prev(above);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

bool OffsetAllocator::in_use(std::size_t offset, std::size_t bytes) const {
  const auto above = used_.upper_bound(offset);
  if (above == used_.begin()) {
    return false;
  }
  const auto [start, length] = *std::prev(above);
  const std::size_t inside = offset - start;
  return inside < length && bytes <= length - inside;
}

std::size_t OffsetAllocator::largest_free_bytes() const {
  const auto largest =
      std::max_element(free_.begin(), free_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return largest == free_.end() ? 0 : largest->second;
}

}  // namespace xstage::memory
