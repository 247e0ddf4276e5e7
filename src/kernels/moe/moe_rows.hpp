#pragma once
// The rows of a rank's experts, as the kernels of a mixture-of-experts layer hand them on: dispatch -> Linear-1 ->
// Linear-2 -> combine. Plain data, device addresses.
//
// One row for each choice of an expert that lives here. The rows of local expert e begin at row
// first_block[e] * moe_block_rows and are ordered by source rank, token and choice. Rows behind an expert's last one,
// up to the end of its block, are padding: they may hold anything, and may be overwritten.

#include <cstdint>

#include "schedule/moe_tiles.hpp"

namespace xstage::kernels {

inline constexpr std::int32_t moe_block_rows = 128;

/// Where a row came from.
struct MoeOrigin {
  std::int32_t rank;
  std::int32_t choice;  // token * top_k + k on that rank
};

struct MoeRows {
  char* tokens;               // [most_rows, hidden] bf16: what dispatch brought
  char* activations;          // [most_rows, intermediate] bf16: Linear-1 with SwiGLU, times the router weight
  char* results;              // [most_rows, hidden] bf16: Linear-2, before it travels back
  std::int32_t* counts;       // [experts_per_rank]: rows of each expert
  std::int32_t* first_block;  // [experts_per_rank + 1]
  float* weights;             // [most_rows]: router weight of the row's choice
  MoeOrigin* origins;         // [most_rows]
};

/// Rows for every routing: all ranks have the most tokens and all their choices fall here.
inline std::int32_t most_moe_rows(int world, std::int64_t most_tokens, int top_k, int experts_per_rank) {
  const auto choices = static_cast<std::int32_t>(world * most_tokens * top_k);
  return moe_block_rows * schedule::most_moe_blocks(choices, experts_per_rank, moe_block_rows);
}

}  // namespace xstage::kernels
