#include "report/clock.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "xstage/error.hpp"
#include "xstage/trace.hpp"

namespace xstage::trace {

std::int64_t round_trip_ns(const ClockExchange& exchange) {
  return (exchange.returned_ns - exchange.sent_ns) - (exchange.answered_ns - exchange.received_ns);
}

ClockOffset best_offset(std::span<const ClockExchange> exchanges, std::int64_t clock_step_ns) {
  if (exchanges.empty()) {
    throw InputError("no exchanges between two clocks: at least one is needed to compare them");
  }
  const ClockExchange& best = *std::min_element(
      exchanges.begin(), exchanges.end(),
      [](const ClockExchange& left, const ClockExchange& right) { return round_trip_ns(left) < round_trip_ns(right); });
  const std::int64_t there = best.received_ns - best.sent_ns;
  const std::int64_t back = best.answered_ns - best.returned_ns;
  // Clocks that advance in steps may even show an answer before its question.
  const auto round_trip = static_cast<double>(std::max<std::int64_t>(0, round_trip_ns(best)));
  return {(there + back) / 2, round_trip / 2 + static_cast<double>(clock_step_ns)};
}

namespace {

void check_number(const char* what, int value, std::size_t count) {
  if (value < 0 || static_cast<std::size_t>(value) >= count) {
    throw InputError(fmt::format("a span of {} {}: the trace has {}", what, value, count));
  }
}

void check_span(const Trace& trace, const Span& span) {
  check_number("rank", span.rank, trace.clocks.size());
  check_number("role", span.role, trace.names.roles.size());
  check_number("kind", span.kind, trace.names.kinds.size());
  if (span.end_ns < span.begin_ns) {
    throw InputError(fmt::format("a span of rank {}, CTA {}, {} ends {} ns before it begins: it must not", span.rank,
                                 span.block, trace.names.roles[static_cast<std::size_t>(span.role)],
                                 span.begin_ns - span.end_ns));
  }
}

}  // namespace

std::vector<Span> on_common_clock(const Trace& trace) {
  std::vector<Span> spans = trace.spans;
  for (Span& span : spans) {
    check_span(trace, span);
    const std::int64_t offset = trace.clocks[static_cast<std::size_t>(span.rank)].offset_ns;
    span.begin_ns -= offset;
    span.end_ns -= offset;
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span& left, const Span& right) { return left.begin_ns < right.begin_ns; });
  const std::int64_t origin = spans.empty() ? 0 : spans.front().begin_ns;
  for (Span& span : spans) {
    span.begin_ns -= origin;
    span.end_ns -= origin;
  }
  return spans;
}

}  // namespace xstage::trace
