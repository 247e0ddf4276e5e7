#pragma once
// Compares recorded spans of a cell with each other and with the model.

#include <optional>
#include <string>

#include "bench/prediction_basis.hpp"
#include "ops/attention/bench/prediction.hpp"
#include "ops/attention/bench/spans.hpp"

namespace xstage::bench {

/// Adds to the spans of `fused` how its staging and storing compare with those of `local_twin`.
void add_twin_comparison(AttentionSpans& fused, const AttentionSpans& twin);

/// Adds to the spans of `fused`, if it recorded a wave, the verdict of xstage::audit for that wave on this store path.
/// Throws InputError if the platform cannot be asked about such a wave.
void add_verdict(AttentionSpans& fused, StorePath path, const PredictionBasis& basis);

/// What a row's spans say, beside the prediction if there is one, in one line.
[[nodiscard]] std::string comparison_text(const AttentionSpans& spans,
                                          const std::optional<AttentionPrediction>& prediction);

/// The field `spans` of a row.
[[nodiscard]] Json spans_json(const AttentionSpans& spans, const std::optional<AttentionPrediction>& prediction);

}  // namespace xstage::bench
