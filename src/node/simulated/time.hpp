#pragma once
/// Simulated time: integer picoseconds, so that sums are exact and two events compare the same on every machine.

#include <cmath>
#include <cstdint>
#include <limits>

namespace xstage::simulated {

using Picoseconds = std::int64_t;

inline constexpr Picoseconds never = std::numeric_limits<Picoseconds>::max();

/// One L2 line: the unit in which an SM's stores travel, however wide the instruction was.
inline constexpr std::int64_t packet_bytes = 128;

inline Picoseconds from_ns(double nanoseconds) { return std::llround(nanoseconds * 1e3); }
inline Picoseconds from_us(double microseconds) { return std::llround(microseconds * 1e6); }
inline double to_us(Picoseconds time) { return static_cast<double>(time) * 1e-6; }

/// Time that `bytes` take at 1 GB/s = 1 byte/ns.
inline Picoseconds transfer_time(double bytes, double gb_per_s) { return from_ns(bytes / gb_per_s); }

}  // namespace xstage::simulated
