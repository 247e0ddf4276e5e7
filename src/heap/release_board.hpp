#pragma once
// Which rank has released which buffer. A buffer is free when all ranks have released it and nothing that they launched
// uses it any more; process_heap.cpp then decides when it returns to the allocators. Ranks release in any order, at any
// time.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace xstage::memory {

class ReleaseBoard {
 public:
  explicit ReleaseBoard(int world) : world_(world) {}

  /// Number of the collective step that allocated a buffer; it identifies the buffer on every rank.
  using Id = std::size_t;

  /// Adds a buffer when the first rank has allocated it; the other ranks follow.
  void add(Id buffer, std::string tag, std::size_t bytes);
  /// Called once for each rank and buffer. `at_rest` says whether everything that the rank launched on the buffer has
  /// ended; empty: it has.
  void release(int rank, Id buffer, std::function<bool()> at_rest);

  /// Buffers that are free, in the order in which they were allocated.
  [[nodiscard]] std::vector<Id> free_buffers();
  /// Removes buffers that have returned to the allocators.
  void remove(const std::vector<Id>& buffers);

  /// Text for error messages: which released buffers wait for which ranks; empty if none does.
  [[nodiscard]] std::string waiting() const;

 private:
  struct Entry {
    std::string tag;
    std::size_t bytes;
    std::vector<bool> released;  // [rank]
    // By rank that has released the buffer: whether its launches have ended.
    std::map<int, std::function<bool()>> running;
  };
  int world_;
  std::map<Id, Entry> entries_;
};

}  // namespace xstage::memory
