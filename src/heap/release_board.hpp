#pragma once
// Who has given back which buffer. A buffer is free when all ranks have released it and nothing that they launched uses
// it any more; when that is so, somebody decides (see process_heap.cpp). Ranks release in any order, at any time.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace xstage::memory {

class ReleaseBoard {
 public:
  explicit ReleaseBoard(int world) : world_(world) {}

  /// Number of the collective step that allocated a buffer: its name on every rank.
  using Id = std::size_t;

  /// Some rank has allocated it; the others will.
  void add(Id buffer, std::string tag, std::size_t bytes);
  /// Once a rank and buffer. `at_rest`: whether what the rank launched on it has ended; empty: it has.
  void release(int rank, Id buffer, std::function<bool()> at_rest);

  /// Buffers that are free, in the order in which they were allocated.
  [[nodiscard]] std::vector<Id> free_buffers();
  /// Somebody has decided that they are given back: they are on the board no more.
  void remove(const std::vector<Id>& buffers);

  /// In words, which released buffers wait for whom; empty if none does.
  [[nodiscard]] std::string waiting() const;

 private:
  struct Entry {
    std::string tag;
    std::size_t bytes;
    std::vector<bool> released;                    // [rank]
    std::map<int, std::function<bool()>> running;  // of ranks that have released it: what may still use it
  };
  int world_;
  std::map<Id, Entry> entries_;
};

}  // namespace xstage::memory
