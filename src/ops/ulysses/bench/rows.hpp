#pragma once
// The variants of `xstage bench ulysses`, a layer of sequence-parallel attention from the hidden states of a rank's own
// tokens to its projected results; its rows before they are measured, and what they say of each other.
//
//   variant            each rank computes                     communication
//   compute            its share of the layer                 none
//   qkv_projection     its tokens' Q, K and V                 none
//   attention          its heads                              none
//   output_projection  its tokens' results                    none
//   fused              its share of the layer                 tiles of Q, K and V to the ranks of their heads, tiles of
//                                                             the attention to the owners of their rows; each kernel
//                                                             ends when its peers' tiles have arrived
//   flags              the same                               the same, but the attention begins when the rank's own
//                                                             projection has ended and waits for peers' tiles itself
//
// One rank alone has `compute` and its parts.

#include <vector>

#include "bench/row.hpp"
#include "bench/variant_table.hpp"
#include "ops/ulysses/bench/cells.hpp"

namespace xstage::bench {

/// Which of a layer's operations a variant has, and, among ranks, whether the attention waits for tiles by flags.
struct UlyssesVariant : VariantEntry {
  bool projection = false;
  bool attention = false;
  bool output_projection = false;
  bool by_flags = false;
};

inline constexpr UlyssesVariant ulysses_variants[] = {
    {{"compute"}, true, true, true},     {{"qkv_projection"}, true},
    {{"attention"}, false, true},        {{"output_projection"}, false, false, true},
    {{"fused", true}, true, true, true}, {{"flags", true}, true, true, true, true}};

/// Floating-point operations of one call, of the rank with most tokens.
[[nodiscard]] double operations_of_rank(const UlyssesCell& cell, const UlyssesVariant& variant);

/// The cell's rows for these variants, on GPUs of so many multiprocessors. `plan` has that of each operation.
[[nodiscard]] CellHead head_of(const UlyssesCell& cell, const std::vector<UlyssesVariant>& variants,
                               int multiprocessors);

/// Adds rates, `flags_to_fused`, and `ratio` of `fused` and `flags` to `compute`; ratio - 1 is the communication that
/// is not hidden.
void add_figures(const UlyssesCell& cell, std::vector<Row>& rows_of_cell);

}  // namespace xstage::bench
