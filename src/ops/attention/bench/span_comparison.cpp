#include "ops/attention/bench/span_comparison.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

namespace xstage::bench {

namespace {

std::optional<double> ratio_of(const std::optional<SpanTimes>& one, const std::optional<SpanTimes>& other) {
  if (!one || !other || other->median_us <= 0) {
    return std::nullopt;
  }
  return one->median_us / other->median_us;
}

const std::optional<SpanTimes>& staging(const AttentionSpans& spans) {
  return spans.stage_tile ? spans.stage_tile : spans.stage_all;
}

const std::optional<SpanTimes>& storing(const AttentionSpans& spans) {
  return spans.store_tile ? spans.store_tile : spans.store_all;
}

/// The wave's CTAs with equal shares of its bytes, in whole stores of 16 bytes.
Workload workload_of(const PeerWave& wave, StorePath path) {
  constexpr double granule = 16;
  Workload workload;
  workload.name = "recorded wave";
  workload.path = path;
  workload.producers = wave.producers;
  workload.coincident_producers = wave.coincident_producers;
  workload.bytes = std::ceil(wave.bytes / wave.producers / granule) * granule;
  workload.gap_us = wave.gap_us;
  return workload;
}

double stall_us(const RegimeAudit& regime) { return regime.rate_price_us + regime.capacity_price_us; }

std::string median_text(const std::optional<SpanTimes>& times, const char* without) {
  return times ? times_text(times->median_us, times->p95_us) : without;
}

std::string twin_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format(", {:.3f} of local twin", *ratio) : "";
}

std::string wave_text(const PeerWave& wave, const std::optional<AttentionPrediction>& prediction) {
  std::string text = fmt::format("; V {:.2f} MB", wave.bytes * 1e-6);
  if (prediction) {
    text += fmt::format(", predicted {:.2f}", prediction->remote_bytes * 1e-6);
  }
  return text + fmt::format("; {} CTAs store, {} at once; G {:.2f} us", wave.producers, wave.coincident_producers,
                            wave.gap_us);
}

Json wave_json(const PeerWave& wave) {
  return {{"bytes", wave.bytes},
          {"producers", wave.producers},
          {"coincident_producers", wave.coincident_producers},
          {"gap_us", rounded(wave.gap_us)}};
}

Json regime_json(Verdict verdict, double stall) {
  return {{"verdict", xstage::name_of(verdict)}, {"stall_us", number(rounded(stall))}};
}

Json predicted_json(const AttentionPrediction& prediction) {
  return {{"wave_bytes", prediction.remote_bytes},
          {"main_loop_us", rounded(prediction.main_loop_us)},
          {"drain_us", rounded(prediction.drain_us)},
          {"stall_us", rounded(prediction.stall_us)},
          {"tail_us", rounded(prediction.tail_us)}};
}

void add_all_times(Json& json, const AttentionSpans& spans) {
  const std::array<std::pair<const char*, const std::optional<SpanTimes>&>, 8> kinds{
      {{"main_loop_us", spans.main_loop},
       {"main_loop_part_us", spans.main_loop_part},
       {"stage_tile_us", spans.stage_tile},
       {"stage_own_us", spans.stage_own},
       {"stage_all_us", spans.stage_all},
       {"store_tile_us", spans.store_tile},
       {"store_own_us", spans.store_own},
       {"store_all_us", spans.store_all}}};
  for (const auto& [name, times] : kinds) {
    add_times(json, name, times);
  }
}

}  // namespace

void add_twin_comparison(AttentionSpans& fused, const AttentionSpans& twin) {
  fused.stage_to_twin = ratio_of(staging(fused), staging(twin));
  fused.store_to_twin = ratio_of(storing(fused), storing(twin));
}

void add_verdict(AttentionSpans& fused, StorePath path, const PredictionBasis& basis) {
  if (!fused.wave) {
    return;
  }
  const Audit found = audit(basis.platform, workload_of(*fused.wave, path));
  fused.verdict = {found.free_running.verdict, found.aligned.verdict, stall_us(found.free_running),
                   stall_us(found.aligned)};
}

std::string comparison_text(const AttentionSpans& spans, const std::optional<AttentionPrediction>& prediction) {
  std::string text =
      "main loop " + median_text(spans.main_loop ? spans.main_loop : spans.main_loop_part, "not recorded");
  if (!spans.main_loop && spans.main_loop_part) {
    text += " of a part";
  }
  if (prediction) {
    text += fmt::format(", predicted {:.2f}", prediction->main_loop_us);
  }
  const char* whose = spans.stage_all ? "all" : "peers";
  text +=
      fmt::format("; staging for {} {}{}", whose, median_text(staging(spans), "none"), twin_text(spans.stage_to_twin));
  if (prediction) {
    text += fmt::format(", predicted stall {:.2f}", prediction->stall_us);
  }
  text +=
      fmt::format("; storing for {} {}{}", whose, median_text(storing(spans), "none"), twin_text(spans.store_to_twin));
  if (spans.store_own) {
    text += ", own " + median_text(spans.store_own, "");
  }
  text += fmt::format("; tail {:.2f} us", spans.tail_us);
  if (prediction) {
    text += fmt::format(", predicted {:.2f}", prediction->tail_us);
  }
  if (spans.wave) {
    text += wave_text(*spans.wave, prediction);
  }
  if (spans.verdict) {
    text += fmt::format("; {} (free-running), {} (aligned)", xstage::name_of(spans.verdict->free_running),
                        xstage::name_of(spans.verdict->aligned));
  }
  return text;
}

Json spans_json(const AttentionSpans& spans, const std::optional<AttentionPrediction>& prediction) {
  Json json{{"call_us", rounded(spans.call_us)}};
  add_all_times(json, spans);
  json["tail_us"] = rounded(spans.tail_us);
  if (spans.stage_to_twin) {
    json["stage_to_twin"] = rounded(*spans.stage_to_twin);
  }
  if (spans.store_to_twin) {
    json["store_to_twin"] = rounded(*spans.store_to_twin);
  }
  if (spans.wave) {
    json["wave"] = wave_json(*spans.wave);
  }
  if (prediction) {
    json["predicted"] = predicted_json(*prediction);
  }
  if (spans.verdict) {
    json["audit"] = {{"free_running", regime_json(spans.verdict->free_running, spans.verdict->free_running_stall_us)},
                     {"aligned", regime_json(spans.verdict->aligned, spans.verdict->aligned_stall_us)}};
  }
  return json;
}

}  // namespace xstage::bench
