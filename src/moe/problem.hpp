#pragma once
// What the host knows of a mixture-of-experts layer without CUDA: rules and sizes.

#include <cstddef>
#include <cstdint>
#include <string>

#include "xstage/moe.hpp"

namespace xstage::moe {

inline constexpr int most_top_k = 16;
inline constexpr int most_experts_per_rank = 256;
/// The rows of an expert begin at a multiple of this in the rows of all of a rank's experts: no tile of 64 or 128 rows
/// belongs to two of them.
inline constexpr std::int64_t group_alignment = 128;

/// What all ranks must agree on, in words.
[[nodiscard]] std::string statement(const Problem& problem, const Plan& plan);

/// Experts of all ranks together.
[[nodiscard]] inline int all_experts(const Problem& problem, int world) { return problem.experts_per_rank * world; }

/// Rows that the experts of one rank may have together, each expert's rounded up to group_alignment: all ranks have the
/// most tokens, and all their choices fall on this rank.
[[nodiscard]] std::int64_t most_rows(const Problem& problem, int world);

/// Bytes of what one rank keeps in the symmetric heap, each rounded up to the heap's alignment.
struct HeapSections {
  std::size_t pad = 0;        // signals and epochs, as every operation has them
  std::size_t counts = 0;     // uint32 [source rank, expert of all ranks]: choices
  std::size_t sources = 0;    // [most_rows] records of 8 bytes: token, choice and rank a row came from, router weight
  std::size_t rows = 0;       // bf16 [most_rows, hidden]: tokens as experts read them
  std::size_t activated = 0;  // bf16 [most_rows, intermediate]: what Linear-2 reads; of no interest to peers
  std::size_t combine = 0;    // bf16 [most_tokens, top_k, hidden]: rows of Linear-2 that came back
  [[nodiscard]] std::size_t total() const { return pad + counts + sources + rows + activated + combine; }
};
[[nodiscard]] HeapSections heap_sections(const Problem& problem, int world);

}  // namespace xstage::moe
