#include "heap/process_heap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heap/offset_allocator.hpp"
#include "xstage/error.hpp"

namespace xstage::memory {
namespace {

/// Every collective call makes the same three moves, so that a failure leaves the rank unchanged: it compares with the
/// other ranks, does the work, and takes the step.
///
/// release() is not a step. Buffers that all ranks have released return to the allocators when another buffer is
/// allocated. The first rank of that step decides which buffers these are, and the step passes the decision to the
/// other ranks, so that all allocators go through the same states in the same order, whenever each rank takes the step.
class ProcessHeapRank final : public HeapRank {
 public:
  ProcessHeapRank(int rank, RankMemory& storage, CollectiveLedger& ledger, ReleaseBoard& board, std::size_t bytes)
      : rank_(rank), storage_(&storage), ledger_(&ledger), board_(&board), allocator_(bytes) {}

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

  void agree(std::string_view statement) override {
    ledger_->advance(rank_, {StepKind::agree, fmt::format("'{}'", statement)});
  }

  [[nodiscard]] std::size_t steps() const override { return ledger_->steps(rank_); }
  void check_complete(std::size_t steps) const override { ledger_->check_reached(steps); }

 protected:
  SymmetricBuffer allocate_checked(std::string_view tag, std::size_t bytes, std::size_t alignment) override {
    const CollectiveStep step{StepKind::allocate, fmt::format("'{}' ({} bytes, aligned to {})", tag, bytes, alignment)};
    const std::vector<Id>* const decision = ledger_->decision(rank_);
    const std::vector<Id> returned = decision != nullptr ? *decision : board_->free_buffers();
    OffsetAllocator allocator = without(returned);
    // The size of the heap is checked first: a heap that is too small is so on every rank, and must not look like a
    // disagreement on the second one.
    const auto offset = allocator.allocate(bytes, alignment);
    if (!offset) {
      throw InputError(too_small(step.values, allocator));
    }
    ledger_->check(rank_, step);
    storage_->clear(rank_, *offset, bytes);
    const Id id = steps();
    ledger_->advance(rank_, step, returned);
    allocator_ = std::move(allocator);
    for (const Id buffer : returned) {
      held_.erase(buffer);
    }
    held_.emplace(id, Held{{*offset, bytes}, false});
    board_->remove(returned);
    board_->add(id, std::string(tag), bytes);
    return {*offset, bytes};
  }

  void release_allocated(const SymmetricBuffer& buffer, std::function<bool()> at_rest) override {
    for (auto& [id, held] : held_) {
      if (!held.released && held.buffer.offset == buffer.offset && held.buffer.bytes == buffer.bytes) {
        held.released = true;
        board_->release(rank_, id, std::move(at_rest));
        return;
      }
    }
    throw InputError(fmt::format(
        "rank {} releases {} bytes at offset {}: not an allocated buffer (released already, or from another heap)",
        rank_, buffer.bytes, buffer.offset));
  }

  [[nodiscard]] bool is_allocated(const SymmetricBuffer& buffer) const override {
    return std::any_of(held_.begin(), held_.end(), [&](const auto& entry) {
      const SymmetricBuffer& whole = entry.second.buffer;
      // Wraps to more than any size if the offset lies before the buffer.
      const std::size_t inside = buffer.offset - whole.offset;
      return !entry.second.released && inside < whole.bytes && buffer.bytes <= whole.bytes - inside;
    });
  }

 private:
  using Id = ReleaseBoard::Id;
  struct Held {
    SymmetricBuffer buffer;
    bool released;
  };

  /// Copy of the allocator after these buffers have been returned.
  [[nodiscard]] OffsetAllocator without(const std::vector<Id>& returned) const {
    OffsetAllocator allocator = allocator_;
    for (const Id buffer : returned) {
      const SymmetricBuffer& place = held_.at(buffer).buffer;
      static_cast<void>(allocator.release(place.offset, place.bytes));
    }
    return allocator;
  }

  [[nodiscard]] std::string too_small(const std::string& wanted, const OffsetAllocator& allocator) const {
    const std::string waiting = board_->waiting();
    return fmt::format(
        "rank {} allocates {}: {} of the heap's {} bytes are left, {} of them in one piece; create the heap with more "
        "bytes per rank, or release buffers first{}{}",
        rank_, wanted, allocator.free_bytes(), allocator.total_bytes(), allocator.largest_free_bytes(),
        waiting.empty() ? "" : ": ", waiting);
  }

  int rank_;
  RankMemory* storage_;
  CollectiveLedger* ledger_;
  ReleaseBoard* board_;
  OffsetAllocator allocator_;
  std::map<Id, Held> held_;  // buffers until they are returned, which may be after their release
};

}  // namespace

ProcessHeap::ProcessHeap(std::unique_ptr<RankMemory> storage, std::size_t bytes_per_rank)
    : storage_(std::move(storage)), ledger_(storage_->world()), board_(storage_->world()) {
  for (int rank = 0; rank < world(); ++rank) {
    ranks_.push_back(std::make_unique<ProcessHeapRank>(rank, *storage_, ledger_, board_, bytes_per_rank));
  }
}

HeapRank& ProcessHeap::rank(int rank) {
  if (rank < 0 || rank >= world()) {
    throw InputError(fmt::format("rank {}: the heap has ranks 0 to {}", rank, world() - 1));
  }
  return *ranks_[static_cast<std::size_t>(rank)];
}

}  // namespace xstage::memory
