// What a mixture-of-experts layer keeps in the symmetric heap. Sizes are those of the worst routing: only the device
// knows the one that comes.

#include <algorithm>

#include "kernels/collective/call_parameters.hpp"
#include "moe/problem.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::moe {

namespace {

constexpr std::int64_t element_bytes = 2;
constexpr std::int64_t word_bytes = 4;
constexpr std::int64_t source_bytes = 8;

std::size_t padded(std::int64_t bytes) {
  constexpr std::size_t alignment = HeapRank::default_alignment;
  return (static_cast<std::size_t>(bytes) + alignment - 1) / alignment * alignment;
}

}  // namespace

std::int64_t most_rows(const Problem& problem, int world) {
  const std::int64_t choices = problem.most_tokens * problem.top_k * world;
  // An expert with any row ends with a gap of at most group_alignment - 1.
  const std::int64_t with_rows = std::min<std::int64_t>(problem.experts_per_rank, choices);
  return (choices + with_rows * (group_alignment - 1)) / group_alignment * group_alignment;
}

HeapSections heap_sections(const Problem& problem, int world) {
  check_problem(problem, world);
  const std::int64_t rows = most_rows(problem, world);
  HeapSections sections;
  // As CollectiveHandle::pad_bytes in kernels/collective/handle.hpp, which needs CUDA.
  sections.pad = padded(kernels::CallPad::arrivals * word_bytes);
  sections.counts = padded(word_bytes * world * all_experts(problem, world));
  sections.sources = padded(source_bytes * rows);
  sections.rows = padded(element_bytes * rows * problem.hidden);
  sections.activated = padded(element_bytes * rows * problem.intermediate);
  sections.combine = padded(element_bytes * problem.most_tokens * problem.top_k * problem.hidden);
  return sections;
}

std::size_t heap_bytes(const Problem& problem, int world) { return heap_sections(problem, world).total(); }

}  // namespace xstage::moe
