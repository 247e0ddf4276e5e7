#pragma once
// Parameters of one launch of the burst kernel. Plain data, shared by host and device code.

#include <vector_types.h>

#include <cstdint>

namespace xstage::cuda {

inline constexpr int maximum_destinations = 8;

/// One burst as its producer saw it, in SM clock cycles after the producer's `start_cycle`.
struct alignas(16) LoggedBurst {  // one 16-byte store
  std::uint32_t start;
  std::uint32_t issued;   // every store instruction accepted (bulk: shared-memory source read)
  std::uint32_t visible;  // system-scope fence complete; 0 where the launch does not measure it
};

/// Times that tie a producer's cycle counter to %globaltimer, which all SMs of a GPU share, at both ends of its run.
struct ProducerClock {
  std::uint64_t start_cycle;
  std::uint64_t start_nanosecond;
  std::uint64_t end_cycle;
  std::uint64_t end_nanosecond;
  std::uint32_t bursts;  // bursts that this producer made
};

/// Place where a bounded wait on the device gave up.
enum class WaitSite : std::uint32_t { none = 0, grid_barrier = 1, peer_rendezvous = 2 };

struct AbortReport {
  std::uint32_t raised;  // polled by every wait; 1: leave
  WaitSite site;
  std::uint32_t producer;
  std::uint32_t expected;
  std::uint32_t seen;
};

struct BurstParameters {
  // Destination layout, per destination: [slots][producers][stride_bytes]. A producer takes the slots in turn, so that
  // no line is written twice in a row: rewriting the same lines merges stores and reads up to 40% too fast.
  char* destinations[maximum_destinations];
  int destination_count;
  std::int64_t bytes;         // B, stored per producer and burst
  std::int64_t stride_bytes;  // B rounded up to a whole number of 128-byte lines
  int slots;

  int producers;
  std::uint32_t gap_cycles;
  int bursts;                  // at most this many per producer
  int train_length;            // bursts between two complete drains: 1 isolated, `bursts` for one uninterrupted series
  std::uint32_t drain_cycles;  // pause after each train, long enough to empty the X-Stage
  std::uint32_t stop_cycles;   // free-running: stop starting bursts after this time; 0: run all bursts
  bool align_every_burst;      // grid barrier before each burst, not only before each train
  bool measure_visible;        // fence after each burst and log when it completed

  const uint4* filler_memory;  // [filler_words] 16-byte words read by the memory_reads filler
  std::uint64_t filler_words;
  int filler;  // GapFiller

  std::uint32_t seed;  // of the payload

  LoggedBurst* log;                  // [producers][bursts]
  ProducerClock* clocks;             // [producers]
  std::uint32_t* barrier;            // grid barrier arrivals, zero at launch
  AbortReport* abort_report;         // zero at launch
  std::uint32_t* own_rendezvous;     // both_ways: set by the peer ...
  std::uint32_t* peer_rendezvous;    // ... and this one by us; null for one_way
  std::uint64_t timeout_nanosecond;  // of every wait
  std::uint32_t* sink;               // keeps the fillers' results alive
};

}  // namespace xstage::cuda
