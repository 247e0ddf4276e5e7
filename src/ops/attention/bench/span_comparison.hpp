#pragma once
// Recorded spans of a cell against each other and against the model.

#include <optional>
#include <string>

#include "bench/prediction_basis.hpp"
#include "ops/attention/bench/prediction.hpp"
#include "ops/attention/bench/spans.hpp"

namespace xstage::bench {

/// Into the spans of `fused`: its staging and storing against those of `local_twin`.
void add_twin_comparison(AttentionSpans& fused, const AttentionSpans& twin);

/// Into the spans of `fused`, if it recorded a wave: what xstage::audit says of that, stored on this path. Throws
/// InputError if the wave is not one that the platform can be asked about.
void add_verdict(AttentionSpans& fused, StorePath path, const PredictionBasis& basis);

/// What a row's spans say, beside the prediction if there is one, in one line.
[[nodiscard]] std::string comparison_text(const AttentionSpans& spans,
                                          const std::optional<AttentionPrediction>& prediction);

/// The field `spans` of a row.
[[nodiscard]] Json spans_json(const AttentionSpans& spans, const std::optional<AttentionPrediction>& prediction);

}  // namespace xstage::bench
