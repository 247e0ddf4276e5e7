#pragma once
// Recorded spans of a cell against each other and against the model.

#include <string>
#include <vector>

#include "bench/attention_row.hpp"
#include "bench/gemm_prediction.hpp"

namespace xstage::bench {

/// In the row `fused`: its staging and storing against that of `local_twin`, if both have been recorded.
void add_twin_comparison(std::vector<AttentionRow>& rows_of_cell);

/// In the row `fused`: what xstage::audit says of the wave that it recorded. Throws InputError if the wave is not one
/// that the platform can be asked about.
void add_verdict(std::vector<AttentionRow>& rows_of_cell, const PredictionBasis& basis);

/// What a row's spans say, beside the prediction if there is one, in one line.
[[nodiscard]] std::string comparison_text(const AttentionSpans& spans,
                                          const std::optional<AttentionPrediction>& prediction);

/// The field `spans` of a row. The row has them.
[[nodiscard]] Json spans_json(const AttentionRow& row);

}  // namespace xstage::bench
