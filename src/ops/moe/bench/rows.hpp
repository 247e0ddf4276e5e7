#pragma once
// The variants of `xstage bench moe`, which are an expert-parallel mixture-of-experts layer and its kernels, each
// alone; its rows before they are measured, and the figures that compare them.
//
//   variant        each rank computes                       communication
//   unfused        the layer: one kernel after the other    those of dispatch and combine
//   unfused_rows   the same                                 those of dispatch and combine_rows
//   dispatch       where rows go                            tokens to the ranks of their experts
//   linear1        its experts' rows: gate, up and SwiGLU   none
//   linear2        its experts' rows                        none
//   combine        sums over choices                        one row back for each token and rank: Combine::partial_sums
//   combine_rows   sums over choices                        one row back for each choice: Combine::rows
//
// Further variants are dispatch_local and combine_local: dispatch and combine whose rows for peers stay in the rank's
// own memory, which measures the kernels without the fabric. All variants have the same routing. A single rank has only
// `unfused`, `linear1` and `linear2`.

#include <optional>
#include <vector>

#include "bench/row.hpp"
#include "bench/variant_table.hpp"
#include "ops/moe/bench/cells.hpp"
#include "ops/moe/bench/load.hpp"

namespace xstage::bench {

enum class MoePart { layer, dispatch, linear1, linear2, combine };

struct MoeVariant : VariantEntry {
  MoePart part = MoePart::layer;
  moe::Combine combine = moe::Combine::partial_sums;  // rows that ranks send each other after Linear-2
  bool local_twin = false;                            // an exchange whose rows for peers stay in the rank's own memory
};

inline constexpr MoeVariant moe_variants[] = {
    {{"unfused"}, MoePart::layer},
    {{"unfused_rows", true}, MoePart::layer, moe::Combine::rows},
    {{"dispatch", true}, MoePart::dispatch},
    {{"linear1"}, MoePart::linear1},
    {{"linear2"}, MoePart::linear2},
    {{"combine", true}, MoePart::combine},
    {{"combine_rows", true}, MoePart::combine, moe::Combine::rows},
    {{"dispatch_local", true, false}, MoePart::dispatch, moe::Combine::partial_sums, true},
    {{"combine_local", true, false}, MoePart::combine, moe::Combine::partial_sums, true}};

/// Whether a variant does nothing but move rows between ranks.
[[nodiscard]] bool is_exchange(const MoeVariant& variant);

/// Floating-point operations of one call, of the rank with most rows; 0 for exchanges.
[[nodiscard]] double operations_of_rank(const MoeCell& cell, const MoeVariant& variant, const MoeLoad& load);

/// Bytes of rows that leave a rank in one call, or would leave it if the variant were no local twin; the maximum over
/// ranks. 0 unless it is an exchange.
[[nodiscard]] std::int64_t remote_bytes(const MoeVariant& variant, const MoeLoad& load);

/// The plan of a variant: that of the rule, except for `combine`.
[[nodiscard]] moe::Plan plan_of(const MoeCell& cell, const MoeVariant& variant, int multiprocessors);

/// The cell's rows for these variants, on GPUs of so many multiprocessors.
[[nodiscard]] CellHead head_of(const MoeCell& cell, const std::vector<MoeVariant>& variants, int multiprocessors);

/// Adds rates. For layers it adds `ratio` to linear1 + linear2 (everything above 1 is not computing), `parts_ratio` to
/// dispatch + linear1 + linear2 + its own combine, and the ceiling of these parts. For exchanges with peers it adds
/// `drain_share`, if R (`drain_gb_per_s`) is known.
void add_figures(const MoeLoad& load, const MoeCell& cell, std::vector<Row>& rows_of_cell,
                 const std::optional<double>& drain_gb_per_s);

}  // namespace xstage::bench
