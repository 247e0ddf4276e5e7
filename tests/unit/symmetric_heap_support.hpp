#pragma once
// A symmetric heap over host memory, for tests of everything but the mapping of devices.

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heap/process_heap.hpp"
#include "xstage/error.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::heap_test {

inline constexpr std::size_t heap_bytes = 65536;

/// Poisoned at first, so that a test sees who clears it. Fails to clear on request.
class HostMemory final : public memory::RankMemory {
 public:
  explicit HostMemory(int world) {
    for (int rank = 0; rank < world; ++rank) {
      pieces_.emplace_back(static_cast<char*>(std::aligned_alloc(HeapRank::greatest_alignment, heap_bytes)),
                           &std::free);
      std::memset(pieces_.back().get(), 0x5A, heap_bytes);
    }
  }
  [[nodiscard]] int world() const override { return static_cast<int>(pieces_.size()); }
  [[nodiscard]] int device(int rank) const override { return 10 + rank; }
  [[nodiscard]] char* base(int rank) const override { return pieces_[static_cast<std::size_t>(rank)].get(); }
  void clear(int rank, std::size_t offset, std::size_t bytes) override {
    if (fail) {
      throw DeviceError("cannot clear");
    }
    std::memset(base(rank) + offset, 0, bytes);
  }
  bool fail = false;

 private:
  std::vector<std::unique_ptr<char, decltype(&std::free)>> pieces_;
};

struct Heap {
  HostMemory* storage;
  memory::ProcessHeap heap;

  explicit Heap(int world) : Heap(std::make_unique<HostMemory>(world)) {}
  explicit Heap(std::unique_ptr<HostMemory> host) : storage(host.get()), heap(std::move(host), heap_bytes) {}
  HeapRank& operator[](int rank) { return heap.rank(rank); }
};

/// What `call` says when it throws InputError; empty: it throws nothing.
template <typename Call>
std::string complaint(Call&& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace xstage::heap_test
