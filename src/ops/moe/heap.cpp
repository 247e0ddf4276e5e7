// Sizes are those of the worst routing, since only the device knows the actual one.

#include "ops/moe/heap.hpp"

#include "ops/moe/device/parameters.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::moe {

namespace {

using kernels::CallPad;
using kernels::MoeExchangePad;

constexpr std::int64_t element_bytes = 2;
constexpr std::int64_t count_bytes = sizeof(std::uint64_t);
constexpr std::int64_t route_bytes = sizeof(kernels::MoeRoute);

static_assert(group_alignment == kernels::moe_block_rows);
static_assert(most_top_k == kernels::most_moe_choices);

std::size_t padded(std::size_t bytes) {
  constexpr std::size_t alignment = HeapRank::default_alignment;
  return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t padded(std::int64_t bytes) { return padded(static_cast<std::size_t>(bytes)); }

}  // namespace

std::int64_t most_rows(const Problem& problem, int world) {
  return kernels::most_moe_rows(world, problem.most_tokens, problem.top_k, problem.experts_per_rank);
}

std::size_t arrival_words(int world) {
  return MoeExchangePad::arrival_words(world, static_cast<std::int32_t>(CallPad::most_blocks));
}

HeapSections heap_sections(const Problem& problem, int world) {
  check_problem(problem, world);
  const std::int64_t choices = problem.most_tokens * problem.top_k;
  HeapSections sections;
  // As CollectiveHandle::pad_bytes in fabric/handle.hpp, which needs CUDA.
  sections.pad = padded((CallPad::arrivals + arrival_words(world)) * sizeof(std::uint32_t));
  sections.tokens = padded(element_bytes * most_rows(problem, world) * problem.hidden);
  sections.counts = padded(count_bytes * world * kernels::MoeCountLine::words(all_experts(problem, world)));
  sections.routes = padded(route_bytes * world * choices);
  sections.slots = padded(element_bytes * choices * problem.hidden);
  return sections;
}

std::size_t heap_bytes(const Problem& problem, int world) { return heap_sections(problem, world).total(); }

}  // namespace xstage::moe
