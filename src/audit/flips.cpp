#include "audit/flips.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "audit/regime_audit.hpp"
#include "audit/undecided.hpp"

namespace xstage {

namespace {

/// Search limits, far beyond any kernel of today; a search that reaches one reports that the knob does not flip.
constexpr double longest_gap_us = 1e9;
constexpr double largest_tile_bytes = 1099511627776.0;  // 1 TiB

/// One regime of one workload, evaluated with one value changed.
class Probe {
 public:
  Probe(const Platform& platform, const Workload& workload, Regime regime)
      : platform_(platform), workload_(workload), regime_(regime) {}

  [[nodiscard]] Verdict with_gap(double gap_us) const { return verdict(gap_changed(gap_us)); }
  [[nodiscard]] Verdict with_bytes(double bytes) const { return verdict(bytes_changed(bytes)); }
  [[nodiscard]] Verdict with_producers(int producers) const { return verdict(producers_changed(producers)); }
  [[nodiscard]] Verdict with_coincident(int coincident) const { return verdict(coincident_changed(coincident)); }

  [[nodiscard]] Workload gap_changed(double gap_us) const {
    Workload changed = workload_;
    changed.gap_us = gap_us;
    return changed;
  }
  [[nodiscard]] Workload bytes_changed(double bytes) const {
    Workload changed = workload_;
    changed.bytes = bytes;
    return changed;
  }
  [[nodiscard]] Workload producers_changed(int producers) const {
    Workload changed = workload_;
    changed.producers = producers;
    changed.coincident_producers = std::min(workload_.coincident_producers, producers);
    return changed;
  }
  [[nodiscard]] Workload coincident_changed(int coincident) const {
    Workload changed = workload_;
    changed.coincident_producers = coincident;
    return changed;
  }
  /// Why the verdict of `changed` is not known, and what measures it.
  [[nodiscard]] std::string why(const Workload& changed) const { return why_undecided(platform_, changed, regime_); }

 private:
  [[nodiscard]] Verdict verdict(const Workload& changed) const { return verdict_of(platform_, changed, regime_); }

  const Platform& platform_;
  const Workload& workload_;
  Regime regime_;
};

bool passes(Verdict verdict) { return verdict == Verdict::piggyback; }

std::string fails_or_unknown(Verdict verdict) {
  return verdict == Verdict::reshape ? "fails" : "is beyond what the profile can decide";
}

/// Narrows [low, high], whose ends disagree, until they are neighbours in double precision or 200 steps have passed;
/// returns the passing end.
template <typename Passes>
double bisect(double low, double high, Passes&& passes_at) {
  const bool low_passes = passes_at(low);
  for (int step = 0; step < 200; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) {
      break;
    }
    (passes_at(middle) == low_passes ? low : high) = middle;
  }
  return low_passes ? low : high;
}

/// A gap of at least `gap_us` in decimal digits, which passes when it is read back: it is rounded up, to as few places
/// from two on as keep it at most at `most_us`.
template <typename Passes>
std::string passing_gap_text(double gap_us, double most_us, Passes&& passes_at) {
  constexpr int most_places = 12;
  double unit = 0.01;
  for (int places = 2; places <= most_places; ++places, unit /= 10) {
    const double steps = std::ceil(gap_us / unit);
    for (const double up : {0.0, 1.0}) {
      std::string text = fmt::format("{:.{}f}", (steps + up) * unit, places);
      const double read_back = std::strtod(text.c_str(), nullptr);
      if (read_back >= gap_us && read_back <= most_us && passes_at(read_back)) {
        return text;
      }
    }
  }
  return fmt::format("{}", gap_us);
}

Flip gap_flip(const Probe& probe, const Workload& workload, bool passing) {
  Flip flip{{}, "gap", "microseconds", workload.gap_us, std::nullopt, {}};
  const auto passes_at = [&](double gap_us) { return passes(probe.with_gap(gap_us)); };
  if (passing) {
    if (passes_at(0)) {
      flip.meaning = "Passes at any gap, even none.";
      return flip;
    }
    flip.flips_at = bisect(0, workload.gap_us, passes_at);
    flip.meaning = fmt::format("A gap of {} microseconds still passes; a shorter one {}.",
                               passing_gap_text(*flip.flips_at, workload.gap_us, passes_at),
                               fails_or_unknown(probe.with_gap(std::nextafter(*flip.flips_at, 0.0))));
    return flip;
  }
  double high = std::max(1.0, workload.gap_us);
  while (high < longest_gap_us && !passes_at(high)) {
    high *= 2;
  }
  if (!passes_at(high)) {
    flip.meaning = "No gap passes: the capacity bound fails whatever the gap.";
    if (probe.with_gap(high) == Verdict::cannot_decide) {
      const double first = bisect(workload.gap_us, high,
                                  [&](double gap_us) { return probe.with_gap(gap_us) == Verdict::cannot_decide; });
      const std::string text = passing_gap_text(first, 2 * longest_gap_us, [](double) { return true; });
      flip.meaning = fmt::format(
          "A gap of at least {} microseconds meets the rate bound, but the profile cannot decide the capacity bound.{}",
          text, probe.why(probe.gap_changed(std::strtod(text.c_str(), nullptr))));
    }
    return flip;
  }
  flip.flips_at = bisect(workload.gap_us, high, passes_at);
  flip.meaning = fmt::format("A gap of at least {} microseconds passes: move useful work between two remote tiles.",
                             passing_gap_text(*flip.flips_at, 2 * longest_gap_us, passes_at));
  return flip;
}

/// The nearest tile size on the grid of the store width at which passing changes; `none` if there is none.
std::optional<double> nearest_tile_flip(const Probe& probe, const Workload& workload, bool passing) {
  const double width = store_width_bytes(workload.path);
  std::int64_t same = std::llround(workload.bytes / width);
  const auto passes_at = [&](std::int64_t stores) {
    return passes(probe.with_bytes(static_cast<double>(stores) * width));
  };
  std::int64_t other = passing ? same : 1;
  if (passing) {
    const auto most = static_cast<std::int64_t>(largest_tile_bytes / width);
    while (other < most && passes_at(other)) {
      other = std::min(most, other * 2);
    }
  }
  if (passes_at(other) == passing) {
    return std::nullopt;
  }
  while (std::abs(other - same) > 1) {
    const std::int64_t middle = same + (other - same) / 2;
    (passes_at(middle) == passing ? same : other) = middle;
  }
  return static_cast<double>(other) * width;
}

/// " The profile cannot decide tiles of A to B bytes. Not known: ...": those from `first` on in the direction of
/// `limit`; empty if the tile of `first` bytes is decided. All sizes are on the grid of the store width.
std::string undecided_tiles(const Probe& probe, double first, double limit, double width) {
  const auto undecided = [&](std::int64_t stores) {
    return probe.with_bytes(static_cast<double>(stores) * width) == Verdict::cannot_decide;
  };
  std::int64_t last = std::llround(first / width);
  const std::int64_t end = std::llround(limit / width);
  if (!undecided(last)) {
    return "";
  }
  std::int64_t beyond = last;
  for (std::int64_t step = 1; beyond < end && undecided(beyond); step *= 2) {
    last = beyond;
    beyond = std::min(end, beyond + step);
  }
  if (undecided(beyond)) {
    return fmt::format(" The profile cannot decide tiles of {:.0f} bytes or more.{}", first,
                       probe.why(probe.bytes_changed(first)));
  }
  while (beyond - last > 1) {
    const std::int64_t middle = last + (beyond - last) / 2;
    (undecided(middle) ? last : beyond) = middle;
  }
  return fmt::format(" The profile cannot decide tiles of {:.0f} to {:.0f} bytes.{}", first,
                     static_cast<double>(last) * width, probe.why(probe.bytes_changed(first)));
}

Flip bytes_flip(const Probe& probe, const Workload& workload, bool passing) {
  Flip flip{{}, "tile bytes", "bytes per producer", workload.bytes, std::nullopt, {}};
  flip.flips_at = nearest_tile_flip(probe, workload, passing);
  if (!flip.flips_at) {
    flip.meaning = passing ? "Passes at any tile size." : "No tile size passes at this gap.";
  } else if (passing) {
    flip.meaning = fmt::format("A tile of {:.0f} bytes or more {} at this gap.", *flip.flips_at,
                               fails_or_unknown(probe.with_bytes(*flip.flips_at)));
  } else {
    flip.meaning =
        fmt::format("A tile of at most {:.0f} remote bytes passes if its gap stays as it is.", *flip.flips_at);
  }
  const double width = store_width_bytes(workload.path);
  if (!flip.flips_at && !passing) {
    flip.meaning += undecided_tiles(probe, width, workload.bytes, width);
  } else if (flip.flips_at) {
    flip.meaning += undecided_tiles(probe, passing ? *flip.flips_at : *flip.flips_at + width,
                                    passing ? largest_tile_bytes : workload.bytes, width);
  }
  return flip;
}

/// Counts from `low` to `high`, for none of which the profile has an answer.
struct CountRange {
  int low = 0;
  int high = 0;
};

/// A count at which passing changes, and the counts up to it, and right behind it, for which the profile has no answer.
struct CountFlip {
  std::optional<int> count;
  std::vector<CountRange> undecided;
};

void add_count(std::vector<CountRange>& ranges, int count) {
  if (!ranges.empty() && count == ranges.back().high + 1) {
    ranges.back().high = count;
  } else if (!ranges.empty() && count == ranges.back().low - 1) {
    ranges.back().low = count;
  } else {
    ranges.push_back({count, count});
  }
}

/// Searches below the current count if the test fails, above it if the test passes. It scans and does not bisect: Q(K)
/// is interpolated between calibrated counts and need not be monotonic.
template <typename VerdictAt>
CountFlip nearest_count_flip(int current, int most, bool passing, VerdictAt&& verdict_at) {
  CountFlip flip;
  const int step = passing ? 1 : -1;
  for (int count = current + step; count >= 1 && count <= most; count += step) {
    const Verdict verdict = verdict_at(count);
    if (verdict == Verdict::cannot_decide) {
      add_count(flip.undecided, count);
    } else if (flip.count) {
      break;
    }
    if (!flip.count && passes(verdict) != passing) {
      flip.count = count;
      if (verdict != Verdict::cannot_decide) {
        break;
      }
    }
  }
  return flip;
}

/// Text about counts that might pass if they had been calibrated; `changed` is the workload with another count.
template <typename Changed>
std::string undecided_counts(const Probe& probe, const CountFlip& flip, Changed&& changed) {
  std::string text;
  for (const CountRange& range : flip.undecided) {
    const std::string counts =
        range.low == range.high ? fmt::format("{}", range.low) : fmt::format("{} to {}", range.low, range.high);
    text += fmt::format(" The profile cannot decide {}.{}", counts, probe.why(changed(range.high)));
  }
  return text;
}

int most_producers(const Platform& platform, const Workload& workload) {
  int most = 0;
  for (const Device& device : platform.node.devices) {
    most = most == 0 ? device.multiprocessors : std::min(most, device.multiprocessors);
  }
  return std::max(most, workload.producers);
}

Flip producers_flip(const Probe& probe, const Platform& platform, const Workload& workload, bool passing) {
  Flip flip{{}, "producers", "producers", static_cast<double>(workload.producers), std::nullopt, {}};
  const int most = most_producers(platform, workload);
  const CountFlip found =
      nearest_count_flip(workload.producers, most, passing, [&](int count) { return probe.with_producers(count); });
  if (!found.count) {
    flip.meaning = passing
                       ? fmt::format("Passes with all {} multiprocessors storing.", most)
                       : "Not even one producer passes." +
                             undecided_counts(probe, found, [&](int count) { return probe.producers_changed(count); });
    return flip;
  }
  flip.flips_at = *found.count;
  flip.meaning =
      passing ? fmt::format("A count of {} {}.", *found.count, fails_or_unknown(probe.with_producers(*found.count)))
              : fmt::format("At most {} CTAs that store remote tiles pass.", *found.count);
  flip.meaning += undecided_counts(probe, found, [&](int count) { return probe.producers_changed(count); });
  return flip;
}

Flip coincident_flip(const Probe& probe, const Workload& workload, bool passing) {
  const int current = coincident_producers(workload);
  Flip flip{{}, "coincident producers", "producers", static_cast<double>(current), std::nullopt, {}};
  const CountFlip found =
      nearest_count_flip(current, workload.producers, passing, [&](int count) { return probe.with_coincident(count); });
  if (!found.count) {
    flip.meaning = passing
                       ? fmt::format("Passes even when all {} producers coincide.", workload.producers)
                       : "Staggering alone does not pass." +
                             undecided_counts(probe, found, [&](int count) { return probe.coincident_changed(count); });
    return flip;
  }
  flip.flips_at = *found.count;
  flip.meaning =
      passing ? fmt::format("{} that reach their tile boundary together: {}.", *found.count,
                            fails_or_unknown(probe.with_coincident(*found.count)))
              : fmt::format("Passes if at most {} reach their tile boundary together: stagger them.", *found.count);
  flip.meaning += undecided_counts(probe, found, [&](int count) { return probe.coincident_changed(count); });
  return flip;
}

}  // namespace

std::vector<Flip> find_flips(const Platform& platform, const Workload& workload, Regime regime, Verdict verdict) {
  if (verdict == Verdict::cannot_decide) {
    return {};
  }
  const Probe probe(platform, workload, regime);
  const bool passing = passes(verdict);
  std::vector<Flip> flips{gap_flip(probe, workload, passing), bytes_flip(probe, workload, passing),
                          producers_flip(probe, platform, workload, passing)};
  if (regime == Regime::aligned) {
    flips.push_back(coincident_flip(probe, workload, passing));
  }
  for (Flip& flip : flips) {
    flip.regime = regime;
  }
  return flips;
}

}  // namespace xstage
