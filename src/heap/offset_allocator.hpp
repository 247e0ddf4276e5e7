#pragma once
// Allocator of offsets: which bytes of a heap are in use. It holds no memory. It takes the first free range that fits,
// so that the same sequence of calls gives the same offsets on every rank without communication.

#include <cstddef>
#include <map>
#include <optional>

namespace xstage::memory {

class OffsetAllocator {
 public:
  explicit OffsetAllocator(std::size_t total_bytes);

  /// The lowest free offset that is a multiple of `alignment` (a power of two) with `bytes` (not zero) behind it; empty
  /// if there is none.
  [[nodiscard]] std::optional<std::size_t> allocate(std::size_t bytes, std::size_t alignment);

  /// False, and nothing changes, unless allocate(bytes, ...) returned `offset` and it was not released since.
  [[nodiscard]] bool release(std::size_t offset, std::size_t bytes);

  /// Whether the bytes lie within one piece that is in use.
  [[nodiscard]] bool in_use(std::size_t offset, std::size_t bytes) const;

  [[nodiscard]] std::size_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] std::size_t free_bytes() const { return free_bytes_; }
  /// Free bytes in one piece; alignment may cost some of them.
  [[nodiscard]] std::size_t largest_free_bytes() const;

 private:
  using Pieces = std::map<std::size_t, std::size_t>;  // offset -> bytes
  void give_back(std::size_t offset, std::size_t bytes);

  std::size_t total_bytes_;
  std::size_t free_bytes_;
  Pieces free_;  // no two of them touch
  Pieces used_;
};

}  // namespace xstage::memory
