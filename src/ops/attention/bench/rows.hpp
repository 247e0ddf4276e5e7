#pragma once
// The variants of `xstage bench attention`, its rows before they are measured, and the figures that compare them.
//
//   variant      each rank computes     communication
//   attention    its heads              none: results stay in its own memory
//   all_to_all   nothing                results of `attention` to the owners of their rows, by one kernel
//   serial       its heads              the same, afterwards on the same stream
//   fused        its heads              every tile goes to its owner when it is done; a call ends when its peers'
//                                       results have arrived (Completion::arrived)
//   fused_sent   its heads              the same, but a call ends when its own results have been sent
//   local_twin   its heads              the stores of `fused`, but into its own memory
//
// One rank alone has `attention`.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/plan_options.hpp"
#include "bench/row.hpp"
#include "bench/variant_table.hpp"
#include "ops/attention/bench/cells.hpp"

namespace xstage::bench {

struct AttentionVariant : VariantEntry {
  bool computes = true;
  bool exchanges = false;  // by a kernel of its own
  attention::Destination destination = attention::Destination::local;
  Completion completion = Completion::arrived;
  bool recorded = false;    // --spans: calls of an instrumented kernel
  bool has_verdict = true;  // --verify knows what it must leave behind
};

inline constexpr AttentionVariant attention_variants[] = {
    {{"attention"}},
    // Moves whatever is there.
    {{"all_to_all", true}, false, true, attention::Destination::local, Completion::arrived, false, false},
    {{"serial", true}, true, true},
    {{"fused", true}, true, false, attention::Destination::to_owners, Completion::arrived, true},
    {{"fused_sent", true, false}, true, false, attention::Destination::to_owners, Completion::sent},
    // Stores results into scratch memory.
    {{"local_twin", true}, true, false, attention::Destination::twin, Completion::arrived, true, false}};

/// Why a run of these variants records nothing that is asked for; empty if it does. A trace is of `fused`.
[[nodiscard]] std::string why_no_spans(const std::vector<AttentionVariant>& variants, bool trace);

/// The problem that a variant's kernel of attention is made for.
[[nodiscard]] attention::Problem problem_of(const AttentionCell& cell, const AttentionVariant& variant);

/// The cell's rows for these variants, on GPUs of so many multiprocessors.
[[nodiscard]] CellHead head_of(const AttentionCell& cell, const std::vector<AttentionVariant>& variants,
                               int multiprocessors, const std::optional<AttentionPlanOverrides>& plan);

/// The hidden part of the communication's time: 1 - (fused - attention) / (serial - attention) of each round, as median
/// with its 95% interval. Empty where the communication's time does not differ from zero: the 95% interval of the
/// median of serial - attention (with too few rounds for one: any round) contains a value that is not above zero.
[[nodiscard]] std::optional<PairedRatio> hiding_ratio(const Times& attention, const Times& serial, const Times& fused);

/// Rates, and what compares the rows with each other, as far as the cell has the variants: `ratio` to `attention`; of
/// what goes to owners, `serial_ratio`, `twin_ratio`, `hiding`, and the ceiling of `attention` and `all_to_all`.
void add_figures(const AttentionCell& cell, std::vector<Row>& rows_of_cell);

}  // namespace xstage::bench
