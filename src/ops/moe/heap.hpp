#pragma once
// Buffers of a mixture-of-experts layer in the symmetric heap.

#include <cstddef>
#include <cstdint>

#include "xstage/moe.hpp"

namespace xstage::moe {

/// Largest number of rows that the experts of one rank may have together, each expert's rounded up to group_alignment
/// of problem.hpp: all ranks have the most tokens, and all of their choices fall on this rank. The problem must be
/// valid.
[[nodiscard]] std::int64_t most_rows(const Problem& problem, int world);

/// Bytes of one rank's buffers, each rounded up to the heap's alignment.
struct HeapSections {
  std::size_t pad = 0;     // signals, for any number of CTAs
  std::size_t tokens = 0;  // bf16 [most_rows, hidden]: tokens as the rank's experts read them
  std::size_t counts = 0;  // 8 bytes [source rank, experts of all ranks + 4]: choices; tokens, bad choice of the source
  std::size_t routes = 0;  // 8 bytes [source rank, most_tokens, top_k]: where each choice has its row, router weight
  std::size_t slots = 0;   // bf16 [most_tokens, top_k, hidden]: rows of Linear-2 that came back
  [[nodiscard]] std::size_t total() const { return pad + tokens + counts + routes + slots; }
};
[[nodiscard]] HeapSections heap_sections(const Problem& problem, int world);

/// Number of words of the signal pad behind the common ones, for CollectiveHandle.
[[nodiscard]] std::size_t arrival_words(int world);

}  // namespace xstage::moe
