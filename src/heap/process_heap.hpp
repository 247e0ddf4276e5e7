#pragma once
// A symmetric heap whose ranks live in one process: one ledger for all ranks, and an allocator for each rank, all of
// which compute the same offsets. This file keeps books only; RankMemory knows where the memory is and how it is
// cleared.

#include <cstddef>
#include <memory>
#include <vector>

#include "heap/collective_ledger.hpp"
#include "heap/release_board.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::memory {

/// The memory of all ranks of one process, at fixed addresses that are the same for all ranks.
class RankMemory {
 public:
  RankMemory() = default;
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;
  virtual ~RankMemory() = default;

  [[nodiscard]] virtual int world() const = 0;
  [[nodiscard]] virtual int device(int rank) const = 0;
  /// Aligned to HeapRank::greatest_alignment.
  [[nodiscard]] virtual char* base(int rank) const = 0;
  /// Fills the bytes with zeros, and returns when they are written.
  virtual void clear(int rank, std::size_t offset, std::size_t bytes) = 0;
};

class ProcessHeap {
 public:
  ProcessHeap(std::unique_ptr<RankMemory> storage, std::size_t bytes_per_rank);

  [[nodiscard]] int world() const { return storage_->world(); }
  [[nodiscard]] HeapRank& rank(int rank);
  void check_complete() const { ledger_.check_complete(); }

 private:
  std::unique_ptr<RankMemory> storage_;
  CollectiveLedger ledger_;
  ReleaseBoard board_;
  std::vector<std::unique_ptr<HeapRank>> ranks_;
};

}  // namespace xstage::memory
