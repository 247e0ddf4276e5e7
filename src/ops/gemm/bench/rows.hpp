#pragma once
// The variants of `xstage bench gemm`, its rows before they are measured, and the figures that compare them.
//
//   variant      each rank computes                                communication
//   cublas       its share of the product, by cuBLAS               none
//   alone        its share of the product, by our kernel           none
//   fused        the operation                                     over the links
//   local_twin   the operation, with the same stores and flags     none: "peers" are local memory, flags are always up
//
// A GEMM by itself has the first two.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/plan_options.hpp"
#include "bench/row.hpp"
#include "bench/variant_table.hpp"
#include "ops/gemm/bench/cells.hpp"

namespace xstage::bench {

enum class GemmWay { cublas, alone, fused, local_twin };

struct GemmVariant : VariantEntry {
  GemmWay way = GemmWay::alone;
};

inline constexpr GemmVariant gemm_variants[] = {{{"cublas"}, GemmWay::cublas},
                                                {{"alone"}, GemmWay::alone},
                                                {{"fused", true}, GemmWay::fused},
                                                {{"local_twin", true, false}, GemmWay::local_twin}};

/// The product that a rank computes without communication, as a problem of one rank.
[[nodiscard]] gemm::Problem problem_of_rank(const GemmCell& cell);

/// Whether a cell has a variant: the cells of a GEMM by itself have no fused ones.
[[nodiscard]] bool has_variant(const GemmCell& cell, const GemmVariant& variant);

/// Why this operation cannot run without peers; empty if it can.
[[nodiscard]] std::string why_no_local_twin(const gemm::Problem& problem, const Plan& plan, int world);

/// The cell's rows for these variants, as far as it has them, on GPUs of so many multiprocessors.
[[nodiscard]] CellHead head_of(const GemmCell& cell, const std::vector<GemmVariant>& variants, int multiprocessors,
                               const std::optional<GemmPlanOverrides>& plan);

/// Adds rates and ratios: `alone` against `cublas`, and the fused variants against the faster of both.
void add_figures(const GemmCell& cell, std::vector<Row>& rows_of_cell);

}  // namespace xstage::bench
