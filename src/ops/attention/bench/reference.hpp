#pragma once
// What an element of an attention's result must be, in double, and where it must lie: a second statement of both,
// independent of the layout that the kernel is launched with. Host code without CUDA.

#include <cstdint>
#include <span>
#include <vector>

#include "ops/attention/bench/cells.hpp"

namespace xstage::bench {

/// One row of one query head.
struct ReferenceRow {
  std::vector<double> expected;
  /// Root of the sum of squares of the terms (probability * value) that make an element. A kernel rounds every
  /// probability to bf16 before it multiplies; these roundings are independent of each other and add up to this size.
  /// Much smaller than the sum of the terms' sizes where there are many, never much smaller where there are few.
  std::vector<double> spread;
};

/// softmax(query * keys^T / sqrt(head_dim)) * values. `keys` and `values`: [seen, head_dim] of those keys that the row
/// sees, one after the other; `query`: [head_dim].
[[nodiscard]] ReferenceRow attend(std::span<const float> query, std::span<const float> keys,
                                  std::span<const float> values);

/// Number of keys, from the first on, to which a row attends.
[[nodiscard]] std::int64_t keys_seen(const AttentionCell& cell, std::int64_t row);

/// Head of keys and values of a rank that serves one of its query heads.
[[nodiscard]] int key_head_of(const AttentionCell& cell, int head_of_rank);

/// A row of one head in the result of a rank that owns it: [own rows, heads, head_dim].
struct ResultPlace {
  int rank = 0;
  std::int64_t row = 0;
  int head = 0;
  bool operator==(const ResultPlace&) const = default;
};

/// Where the owner has what `rank` computes for `row` of the whole sequence and one of its own heads.
[[nodiscard]] ResultPlace owner_of(const AttentionCell& cell, int rank, std::int64_t row, int head_of_rank);

/// Rows that a rank owns.
[[nodiscard]] std::int64_t own_rows(const AttentionCell& cell, int rank);

/// Ascending row numbers to verify: a random sample, the first and the last row, and the rows on both sides of every
/// change of owner.
[[nodiscard]] std::vector<std::int64_t> sampled_rows(const AttentionCell& cell, std::size_t count, std::uint64_t seed);

/// The largest error of a result row, in roundings of bf16: error_in_roundings with the spread of each element.
[[nodiscard]] double largest_error(std::span<const float> result, const ReferenceRow& reference);

}  // namespace xstage::bench
