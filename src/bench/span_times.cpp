#include "bench/span_times.hpp"

#include <fmt/format.h>

#include <numeric>

#include "bench/statistics.hpp"

namespace xstage::bench {

std::optional<SpanTimes> SpanDurations::times() const {
  if (microseconds_.empty()) {
    return std::nullopt;
  }
  const double total = std::accumulate(microseconds_.begin(), microseconds_.end(), 0.0);
  return SpanTimes{total / static_cast<double>(microseconds_.size()), median(microseconds_),
                   percentile(microseconds_, 0.95)};
}

int half_of(const trace::Span& span) {
  using kernels::SpanRole;
  const auto role = static_cast<SpanRole>(span.role);
  return role == SpanRole::multiply_second || role == SpanRole::store_second ? 1 : 0;
}

std::string times_text(double typical_us, double p95_us) {
  return fmt::format("{:.2f} us (p95 {:.2f})", typical_us, p95_us);
}

void add_times(Json& spans, const char* name, const std::optional<SpanTimes>& times) {
  if (times) {
    spans[name] = {
        {"mean", rounded(times->mean_us)}, {"median", rounded(times->median_us)}, {"p95", rounded(times->p95_us)}};
  }
}

}  // namespace xstage::bench
