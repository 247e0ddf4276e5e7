#pragma once
// Statistics of the spans of an instrumented call, for all operations. Host code without CUDA.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/row_fields.hpp"
#include "fabric/span_record.hpp"
#include "xstage/trace.hpp"

namespace xstage::bench {

/// Times over all ranks, CTAs and warpgroups.
struct SpanTimes {
  double mean_us = 0;
  double median_us = 0;
  double p95_us = 0;
};

/// Durations of spans of one kind.
class SpanDurations {
 public:
  void add(std::int64_t begin_ns, std::int64_t end_ns) {
    microseconds_.push_back(static_cast<double>(end_ns - begin_ns) / 1000);
  }
  void add(const trace::Span& span) { add(span.begin_ns, span.end_ns); }

  /// The times; empty if there are no spans.
  [[nodiscard]] std::optional<SpanTimes> times() const;

 private:
  std::vector<double> microseconds_;
};

[[nodiscard]] inline bool is(const trace::Span& span, kernels::SpanKind kind) {
  return span.kind == static_cast<int>(kind);
}

/// Half of the tile, 0 or 1: store warp 0 stores the half that multiplying warpgroup 0 computes, and 1 likewise.
[[nodiscard]] int half_of(const trace::Span& span);

/// "12.50 us (p95 13.00)".
[[nodiscard]] std::string times_text(double typical_us, double p95_us);

/// Adds `NAME`: {mean, median, p95}; does nothing where nothing was recorded.
void add_times(Json& spans, const char* name, const std::optional<SpanTimes>& times);

}  // namespace xstage::bench
