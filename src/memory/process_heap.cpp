#include "memory/process_heap.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "memory/offset_allocator.hpp"
#include "xstage/error.hpp"

namespace xstage::memory {
namespace {

/// Every collective call in the same three moves, so that a failure leaves the rank where it was: compare with the
/// other ranks, do it, take the step.
class ProcessHeapRank final : public HeapRank {
 public:
  ProcessHeapRank(int rank, RankMemory& storage, CollectiveLedger& ledger, std::size_t bytes)
      : rank_(rank), storage_(&storage), ledger_(&ledger), allocator_(bytes) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int world() const override { return storage_->world(); }
  [[nodiscard]] int device() const override { return storage_->device(rank_); }
  [[nodiscard]] std::size_t bytes() const override { return allocator_.total_bytes(); }

  [[nodiscard]] PeerView heap_view() const override {
    PeerView view{rank_, world(), {}};
    for (int peer = 0; peer < world(); ++peer) {
      view.base[peer] = storage_->base(peer);
    }
    return view;
  }

  void release(const SymmetricBuffer& buffer) override {
    const CollectiveStep step{StepKind::release, fmt::format("{} bytes at offset {}", buffer.bytes, buffer.offset)};
    ledger_->check(rank_, step);
    if (!allocator_.release(buffer.offset, buffer.bytes)) {
      throw InputError(fmt::format(
          "rank {} releases {}: not an allocated buffer (released already, or from another heap)", rank_, step.values));
    }
    ledger_->advance(rank_, step);
  }

  void agree(std::string_view statement) override {
    ledger_->advance(rank_, {StepKind::agree, fmt::format("'{}'", statement)});
  }

  [[nodiscard]] std::size_t steps() const override { return ledger_->steps(rank_); }
  void check_complete(std::size_t steps) const override { ledger_->check_reached(steps); }

 protected:
  SymmetricBuffer allocate_checked(std::string_view tag, std::size_t bytes, std::size_t alignment) override {
    const CollectiveStep step{StepKind::allocate, fmt::format("'{}' ({} bytes, aligned to {})", tag, bytes, alignment)};
    // A heap too small comes first: it is so on every rank, and must not look like a disagreement on the second one.
    const auto offset = allocator_.allocate(bytes, alignment);
    if (!offset) {
      throw InputError(fmt::format(
          "rank {} allocates {}: {} of the heap's {} bytes are left, {} of them in one piece; "
          "create the heap with more bytes per rank, or release buffers first",
          rank_, step.values, allocator_.free_bytes(), allocator_.total_bytes(), allocator_.largest_free_bytes()));
    }
    try {
      ledger_->check(rank_, step);
      storage_->clear(rank_, *offset, bytes);
      ledger_->advance(rank_, step);
    } catch (...) {
      static_cast<void>(allocator_.release(*offset, bytes));
      throw;
    }
    return {*offset, bytes};
  }

  [[nodiscard]] bool is_allocated(const SymmetricBuffer& buffer) const override {
    return allocator_.in_use(buffer.offset, buffer.bytes);
  }

 private:
  int rank_;
  RankMemory* storage_;
  CollectiveLedger* ledger_;
  OffsetAllocator allocator_;
};

}  // namespace

ProcessHeap::ProcessHeap(std::unique_ptr<RankMemory> storage, std::size_t bytes_per_rank)
    : storage_(std::move(storage)), ledger_(storage_->world()) {
  for (int rank = 0; rank < world(); ++rank) {
    ranks_.push_back(std::make_unique<ProcessHeapRank>(rank, *storage_, ledger_, bytes_per_rank));
  }
}

HeapRank& ProcessHeap::rank(int rank) {
  if (rank < 0 || rank >= world()) {
    throw InputError(fmt::format("rank {}: the heap has ranks 0 to {}", rank, world() - 1));
  }
  return *ranks_[static_cast<std::size_t>(rank)];
}

}  // namespace xstage::memory
