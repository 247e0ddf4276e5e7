// Code that all providers of symmetric memory share, and the part of PeerAccessHeap that needs no CUDA.

#include "xstage/symmetric_heap.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <utility>

#include "heap/process_heap.hpp"
#include "xstage/error.hpp"

namespace xstage {

SymmetricBuffer HeapRank::allocate(std::string_view tag, std::size_t bytes, std::size_t alignment) {
  if (bytes == 0) {
    throw InputError(fmt::format("rank {} allocates '{}' of 0 bytes: a buffer has at least one", rank(), tag));
  }
  if (!std::has_single_bit(alignment) || alignment < least_alignment || alignment > greatest_alignment) {
    throw InputError(fmt::format("rank {} allocates '{}' aligned to {}: an alignment is a power of two from {} to {}",
                                 rank(), tag, alignment, least_alignment, greatest_alignment));
  }
  return allocate_checked(tag, bytes, alignment);
}

void HeapRank::release(const SymmetricBuffer& buffer, std::function<bool()> at_rest) {
  release_allocated(buffer, std::move(at_rest));
}

PeerView HeapRank::view(const SymmetricBuffer& buffer) const {
  if (!is_allocated(buffer)) {
    throw InputError(
        fmt::format("{} bytes at offset {} of rank {}'s heap are not (or no longer) in one allocated buffer",
                    buffer.bytes, buffer.offset, rank()));
  }
  PeerView view = heap_view();
  for (int peer = 0; peer < view.world; ++peer) {
    if (view.base[peer] != nullptr) {
      view.base[peer] += buffer.offset;
    }
  }
  return view;
}

void* HeapRank::local(const SymmetricBuffer& buffer) const { return view(buffer).base[rank()]; }

std::optional<std::size_t> HeapRank::offset_of(const void* pointer) const {
  // Compares addresses as integers, since pointers into different allocations have no order.
  const auto base = reinterpret_cast<std::uintptr_t>(heap_view().base[rank()]);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address < base || address - base >= bytes()) {
    return std::nullopt;
  }
  return address - base;
}

bool HeapRank::contains(const void* pointer, std::size_t bytes) const {
  const auto offset = offset_of(pointer);
  return offset && bytes <= this->bytes() - *offset;
}

SymmetricBuffer HeapRank::buffer_at(const void* pointer, std::size_t bytes) const {
  const auto offset = offset_of(pointer);
  if (!offset || !is_allocated({*offset, bytes})) {
    throw InputError(fmt::format(
        "{} bytes at {} are not in one buffer of rank {}'s heap: peers reach only memory that allocate() returned",
        bytes, fmt::ptr(pointer), rank()));
  }
  return {*offset, bytes};
}

PeerAccessHeap::PeerAccessHeap(std::unique_ptr<memory::ProcessHeap> heap) : heap_(std::move(heap)) {}
PeerAccessHeap::PeerAccessHeap(PeerAccessHeap&&) noexcept = default;
PeerAccessHeap& PeerAccessHeap::operator=(PeerAccessHeap&&) noexcept = default;
PeerAccessHeap::~PeerAccessHeap() = default;

HeapRank& PeerAccessHeap::rank(int rank) { return heap_->rank(rank); }

int PeerAccessHeap::world() const { return heap_->world(); }

void PeerAccessHeap::check_complete() const { heap_->check_complete(); }

}  // namespace xstage
