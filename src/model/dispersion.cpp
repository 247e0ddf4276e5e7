#include "xstage/dispersion.hpp"

#include <array>
#include <cstddef>
#include <limits>

namespace xstage::model {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// State of one half of the producers. Bytes and bytes per microsecond are those of the half.
struct Half {
  double weight;      // share of the drain while both halves have a backlog
  double volume;      // V/2
  double capacity;    // Q/2
  double store_rate;  // V/2 over T_iss0

  double backlog = 0;
  double left_to_issue = 0;
  double started_us = 0;
  double gap_ends_us = 0;
  std::size_t burst = 0;
  bool issuing = true;
  bool done = false;

  [[nodiscard]] bool wants_drain() const { return issuing || backlog > 0; }
  [[nodiscard]] bool full() const { return backlog >= capacity; }

  /// Bytes accepted per microsecond while issuing: the SMs' own rate, or what the drain frees once the half is full.
  [[nodiscard]] double inflow(double drain) const {
    if (!issuing) {
      return 0;
    }
    return full() ? std::min(store_rate, drain) : store_rate;
  }
};

using Halves = std::array<Half, 2>;

/// Drain rates of both halves. The drain is work-conserving: a half without backlog leaves its share to the other.
std::array<double, 2> drains(const Halves& halves, double drain_bytes_per_us) {
  const bool both = halves[0].wants_drain() && halves[1].wants_drain();
  std::array<double, 2> rates{};
  for (std::size_t index = 0; index < 2; ++index) {
    if (halves[index].wants_drain()) {
      rates[index] = both ? halves[index].weight * drain_bytes_per_us : drain_bytes_per_us;
    }
  }
  return rates;
}

/// Time until this half's state changes: burst issued, X-Stage full or empty, gap over.
double next_event_us(const Half& half, double now, double drain) {
  const double inflow = half.inflow(drain);
  const double growth = inflow - drain;
  double event = half.issuing ? half.left_to_issue / inflow : half.gap_ends_us - now;
  if (half.issuing && !half.full() && growth > 0) {
    event = std::min(event, (half.capacity - half.backlog) / growth);
  } else if (half.backlog > 0 && growth < 0) {
    event = std::min(event, half.backlog / -growth);
  }
  return std::max(0.0, event);
}

void advance(Half& half, double step, double drain) {
  const double inflow = half.inflow(drain);
  half.left_to_issue -= inflow * step;
  half.backlog = std::clamp(half.backlog + (inflow - drain) * step, 0.0, half.capacity);
  // Rounding must not leave a state an instant before its own event.
  constexpr double rounding_bytes = 1e-6;
  if (half.capacity - half.backlog < rounding_bytes) {
    half.backlog = half.capacity;
  } else if (half.backlog < rounding_bytes) {
    half.backlog = 0;
  }
}

/// Ends a burst whose bytes are all accepted and starts the next when its gap is over. True if anything changed.
bool change_state(Half& half, double now, std::span<const double> gap_us, std::span<double> issue_us) {
  constexpr double rounding_bytes = 1e-6;
  constexpr double rounding_us = 1e-12;
  if (half.issuing && half.left_to_issue <= rounding_bytes) {
    issue_us[half.burst] += (now - half.started_us) / 2;
    half.issuing = false;
    ++half.burst;
    half.done = half.burst == issue_us.size();
    half.gap_ends_us = half.done ? never : now + gap_us[half.burst];
  }
  if (!half.done && !half.issuing && half.gap_ends_us <= now + rounding_us) {
    half.issuing = true;
    half.started_us = now;
    half.left_to_issue = half.volume;
  }
  return half.done;
}

Half half_with(double weight, const OperatingPoint& point) {
  Half half{};
  half.weight = weight;
  half.volume = point.volume_bytes / 2;
  half.capacity = point.capacity_bytes / 2;
  half.store_rate = half.volume / point.issue_floor_us;
  half.issuing = true;
  half.left_to_issue = half.volume;
  return half;
}

}  // namespace

void uneven_train_issue_us(const OperatingPoint& point, double unevenness, std::span<const double> gap_us,
                           std::span<double> issue_us) noexcept {
  std::fill(issue_us.begin(), issue_us.end(), 0.0);
  Halves halves{half_with((1 + unevenness) / 2, point), half_with((1 - unevenness) / 2, point)};
  // Upper bound of the events of a burst: full, issued, empty, gap over, and the same of the other half in between.
  const std::size_t most_events = 64 * issue_us.size();
  double now = 0;
  for (std::size_t event = 0; event < most_events && !issue_us.empty(); ++event) {
    const auto rates = drains(halves, point.drain_bytes_per_us);
    const double step = std::min(next_event_us(halves[0], now, rates[0]), next_event_us(halves[1], now, rates[1]));
    if (step == never) {
      return;
    }
    now += step;
    bool all_done = true;
    for (std::size_t index = 0; index < 2; ++index) {
      advance(halves[index], step, rates[index]);
      all_done = change_state(halves[index], now, gap_us, issue_us) && all_done;
    }
    if (all_done) {
      return;
    }
  }
}

}  // namespace xstage::model
