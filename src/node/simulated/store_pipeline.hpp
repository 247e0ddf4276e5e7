#pragma once
/// One SM's stores, from the instruction to the arbiter:
///
///   warps --issue interval--> [queue] --egress interval--> [window: crossbar, arbiter] --> fabric
///                                ^ a place is free when a packet leaves   ^ ... when the fabric's credit is back
///
/// Both stages are FIFOs with fixed service times, so each packet's times follow from those of earlier packets and from
/// the times at which the arbiter served the SM. They are computed as soon as those are known, which needs no event of
/// their own.

#include <cstdint>
#include <optional>
#include <vector>

#include "node/simulated/time.hpp"

namespace xstage::simulated {

/// Times and queue of a store path in the SM.
struct StorePathTiming {
  Picoseconds begin = 0;            ///< start of the burst to the first packet
  Picoseconds end = 0;              ///< acceptance of the last packet to the end of the burst
  Picoseconds issue_interval = 0;   ///< between packets that enter the queue
  Picoseconds egress_interval = 0;  ///< between packets that leave it
  int queue_packets = 0;            ///< 0: no queue; the burst ends when its last packet leaves (bulk)
  int window_packets = 1;
};

class StorePipeline {
 public:
  StorePipeline(const StorePathTiming& timing, std::int64_t packets_per_burst, Picoseconds crossbar);

  /// Starts a burst; the one before it must have ended.
  void open_burst(Picoseconds start);

  /// Computes all times that are known. Returns the end of the open burst's issue, once.
  [[nodiscard]] std::optional<Picoseconds> advance();

  /// Whether a packet waits for the arbiter or is known to reach it, and when.
  [[nodiscard]] bool has_head() const { return taken_ < left_; }
  [[nodiscard]] Picoseconds head_arrival() const { return leave_[slot(taken_)] + crossbar_; }

  /// Removes the head, which the arbiter took; its place in the window is free at `credit_time`.
  void take_head(Picoseconds credit_time) {
    credit_[slot(taken_)] = credit_time;
    ++taken_;
  }

  /// Whether the packets of all bursts opened so far have been taken.
  [[nodiscard]] bool drained() const { return taken_ == opened_; }
  [[nodiscard]] std::int64_t packets_taken() const { return taken_; }

 private:
  [[nodiscard]] std::size_t slot(std::int64_t packet) const { return static_cast<std::size_t>(packet & mask_); }
  [[nodiscard]] std::optional<Picoseconds> issue_end() const;
  bool enter_queue();
  bool leave_queue();

  StorePathTiming timing_;
  std::int64_t packets_per_burst_;
  Picoseconds crossbar_;
  std::int64_t mask_;
  std::vector<Picoseconds> enter_;   // by packet, ring
  std::vector<Picoseconds> leave_;   // by packet, ring
  std::vector<Picoseconds> credit_;  // by packet, ring
  std::int64_t opened_ = 0;          // packets of all bursts opened
  std::int64_t entered_ = 0;
  std::int64_t left_ = 0;
  std::int64_t taken_ = 0;
  Picoseconds first_store_ = 0;
  Picoseconds last_enter_;
  Picoseconds last_leave_;
  bool open_ = false;
};

}  // namespace xstage::simulated
