#pragma once
// Offset between the clocks of two GPUs, from messages that were sent back and forth (as in NTP: RFC 5905, section 8).

#include <cstdint>
#include <span>

namespace xstage::trace {

/// One message and its answer. `sent` and `returned` are times on the common clock, `received` and `answered` on the
/// other.
///
///     common clock   sent ────┐              ┌──► returned
///     other clock             └► received ─ answered
struct ClockExchange {
  std::int64_t sent_ns = 0;
  std::int64_t received_ns = 0;
  std::int64_t answered_ns = 0;
  std::int64_t returned_ns = 0;
};

struct ClockOffset {
  std::int64_t offset_ns = 0;  // other clock minus common clock
  double uncertainty_ns = 0;
};

/// Time for which the message and the answer were in flight.
[[nodiscard]] std::int64_t round_trip_ns(const ClockExchange& exchange);

/// The offset from the exchange with the shortest round trip, in which the two directions can differ least. The true
/// offset lies within half of that round trip plus one step of the clocks, since a clock that advances in steps shows a
/// time that may be a step old. Throws InputError without exchanges.
[[nodiscard]] ClockOffset best_offset(std::span<const ClockExchange> exchanges, std::int64_t clock_step_ns);

}  // namespace xstage::trace
