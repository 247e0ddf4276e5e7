// Sums up how long each kind of activity took, for people and for comparison with the model.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "node/quantiles.hpp"
#include "xstage/trace.hpp"

namespace xstage::trace {

namespace {

KindSummary summary_of(int rank, int kind, std::vector<double> durations_us) {
  std::sort(durations_us.begin(), durations_us.end());
  const double total = std::accumulate(durations_us.begin(), durations_us.end(), 0.0);
  return {rank,
          kind,
          durations_us.size(),
          total / static_cast<double>(durations_us.size()),
          quantile_of_sorted(durations_us, 0.95),
          durations_us.back(),
          total};
}

}  // namespace

std::vector<KindSummary> summarise(const Trace& trace) {
  std::map<std::pair<int, int>, std::vector<double>> durations_us;
  for (const Span& span : on_common_clock(trace)) {
    durations_us[{span.rank, span.kind}].push_back(static_cast<double>(span.end_ns - span.begin_ns) / 1000);
  }
  std::vector<KindSummary> summaries;
  summaries.reserve(durations_us.size());
  for (auto& [key, durations] : durations_us) {
    summaries.push_back(summary_of(key.first, key.second, std::move(durations)));
  }
  return summaries;
}

std::string summary_table(const Trace& trace) {
  std::size_t width = 0;
  for (const std::string& kind : trace.names.kinds) {
    width = std::max(width, kind.size());
  }
  std::string text = fmt::format("{:>4}  {:<{}}  {:>8}  {:>10}  {:>10}  {:>10}  {:>12}\n", "rank", "activity", width,
                                 "count", "mean us", "p95 us", "max us", "total us");
  for (const KindSummary& row : summarise(trace)) {
    text += fmt::format("{:>4}  {:<{}}  {:>8}  {:>10.3f}  {:>10.3f}  {:>10.3f}  {:>12.1f}\n", row.rank,
                        trace.names.kinds[static_cast<std::size_t>(row.kind)], width, row.count, row.mean_us,
                        row.p95_us, row.max_us, row.total_us);
  }
  if (trace.full_tracks > 0) {
    text += fmt::format("{} tracks are full: later spans of theirs are missing. Record with more spans each.\n",
                        trace.full_tracks);
  }
  return text;
}

}  // namespace xstage::trace
