#pragma once
// The cells of `xstage bench attention`. A cell is one shape; its variants are measured against each other. Host code
// without CUDA.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xstage/all_to_all.hpp"
#include "xstage/attention.hpp"

namespace xstage::bench {

/// An attention over one sequence. The destination is to_owners if there are several ranks; heads are summed over all
/// ranks.
struct AttentionCell {
  attention::Problem problem;
  int ranks = 1;
};

/// A shape as the command line states it. kv_heads 0 means as many as heads.
struct AttentionShape {
  std::int64_t sequence = 0;
  int heads = 0;  // of all ranks
  int kv_heads = 0;
  int head_dim = 128;
  bool causal = false;
  bool operator==(const AttentionShape&) const = default;
};

struct AttentionShapeChoice {
  enum class Kind {
    table,  // both of these
    full,   // 12 and 24 heads a rank of dimension 128, 1k to 64k tokens
    extra,  // at 4k, 8k and 16k: head dimension 64, causal, grouped-query
    listed,
  };
  Kind kind = Kind::table;
  std::vector<AttentionShape> listed;
};

/// "table", "full", "extra" or "SEQUENCExHEADS[:d64][:causal][:kvHEADS],..." with heads of all ranks together.
/// InputError for anything else.
[[nodiscard]] AttentionShapeChoice parse_attention_shapes(std::string_view text);

/// Cells of these shapes on `ranks` ranks, without duplicates. InputError if a shape breaks a rule.
[[nodiscard]] std::vector<AttentionCell> make_attention_cells(const AttentionShapeChoice& shapes, int ranks);

/// The problem that each rank computes without communication: its own heads.
[[nodiscard]] attention::Problem problem_of_rank(const AttentionCell& cell);

/// The all-to-all that moves these results to the owners of their rows.
[[nodiscard]] all_to_all::Problem exchange_of(const AttentionCell& cell);

/// Floating-point operations of one rank; causal ones counted by half.
[[nodiscard]] double operations_of_rank(const AttentionCell& cell);

/// As the command line states it: "16384x48:d64:causal:kv12".
[[nodiscard]] std::string shape_text(const AttentionCell& cell);

/// "attention 16384x48 on 2 ranks".
[[nodiscard]] std::string cell_name(const AttentionCell& cell);

}  // namespace xstage::bench
