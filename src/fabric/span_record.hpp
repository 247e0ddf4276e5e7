#pragma once
// Records that instrumented kernels write. Plain data, shared by kernels and host.

#include <cstdint>

namespace xstage::kernels {

/// Roles that record: the trace has one track for each rank, CTA and role.
enum class SpanRole : std::int32_t { loader, store_first, store_second, push, multiply_first, multiply_second };
inline constexpr std::int32_t span_roles = 6;

enum class SpanKind : std::uint32_t {
  main_loop,      // first to last k-block of a tile
  stage_tile,     // accumulators to shared memory: where back-pressure of the stores shows
  store_tile,     // bulk stores of a tile, to the release of their source
  store_arrival,  // wait until the stores of a tile have been performed
  wait_partial,   // wait for a peer's partial tile
  wait_chunk,     // wait for a chunk of gathered rows
  push_chunk,     // one piece of the own shard to all peers
};

struct SpanRecord {
  std::uint64_t begin_ns;  // %globaltimer of the GPU; the host moves all GPUs to one clock
  std::uint64_t end_ns;
  std::uint32_t kind;  // SpanKind
  std::int32_t tile;   // number of the tile in the schedule, -1: none
};

/// Destination and settings of the instruments. `spans` null and longest delay 0 switch them off.
struct ProbeParameters {
  SpanRecord* spans;  // [CTAs, span_roles, spans_each], zeroed before the launch
  std::int32_t spans_each;
  std::uint32_t longest_delay_ns;
  std::uint32_t delay_seed;
};

}  // namespace xstage::kernels
