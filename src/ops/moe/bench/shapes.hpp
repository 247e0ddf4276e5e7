#pragma once
// The model shapes of the MoE matrix, shared by tests, benchmarks, plans and simulations.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "xstage/moe.hpp"

namespace xstage::moe {

struct Shape {
  std::string_view name;
  std::int64_t hidden;
  std::int64_t intermediate;
  int experts_per_rank;  // as on eight ranks, whatever the number of ranks
  int top_k;
};

/// All seven, from the smallest to the largest.
[[nodiscard]] std::span<const Shape> shapes();

/// Finds a shape by its name, in upper or lower case. InputError with all names if there is none.
[[nodiscard]] const Shape& find_shape(std::string_view name);

/// Tokens per rank: those of the matrix, of its rows for decoding, and of the rows that compare with published figures.
inline constexpr std::array<std::int64_t, 3> matrix_tokens{1024, 4096, 8192};
inline constexpr std::array<std::int64_t, 2> decode_tokens{64, 256};
inline constexpr std::array<std::int64_t, 2> published_tokens{512, 2048};
inline constexpr std::array<std::string_view, 2> published_shapes{"DeepSeek-V4-Flash", "DeepSeek-V4-Pro"};

[[nodiscard]] Problem problem_of(const Shape& shape, std::int64_t most_tokens);

}  // namespace xstage::moe
