// Buffers of an attention in the symmetric heap: signals, arrival counters, results.

#include "fabric/call_parameters.hpp"
#include "ops/attention/problem.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::attention {

namespace {

constexpr std::int64_t element_bytes = 2;  // bf16 and fp16

std::size_t padded(std::size_t bytes) {
  constexpr std::size_t alignment = HeapRank::default_alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

std::int64_t slabs(const Problem& problem) {
  return problem.destination == Destination::to_owners
             ? problem.sequences * ((problem.rows + slab_rows - 1) / slab_rows)
             : 0;
}

std::size_t result_bytes(const Problem& problem, int rank, int world) {
  std::int64_t rows = 0;
  switch (problem.destination) {
    case Destination::local:
      break;
    case Destination::to_owners:
      rows = row_range(problem.rows, rank, world).count;
      break;
    case Destination::twin:
      rows = problem.rows;
      break;
  }
  return static_cast<std::size_t>(problem.sequences * rows * problem.heads * problem.head_dim * element_bytes);
}

std::size_t symmetric_result_bytes(const Problem& problem, int world) {
  return result_bytes(problem, 0, world);  // no rank owns more rows than the first
}

std::size_t heap_bytes(const Problem& problem, int world) {
  check_problem(problem, world);
  // As CollectiveHandle::pad_bytes in fabric/handle.hpp, which needs CUDA.
  const std::size_t pad_words = kernels::CallPad::arrivals + static_cast<std::size_t>(slabs(problem));
  return padded(pad_words * sizeof(std::uint32_t)) + padded(symmetric_result_bytes(problem, world));
}

}  // namespace xstage::attention
