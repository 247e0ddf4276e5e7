#pragma once
/// One storing GPU: its producers, their arbiter and its links. An event is the arbiter's choice of one packet. Its
/// consequences (queues that advance, bursts that end, barriers that open) are computed at once.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "node/burst_trace.hpp"
#include "node/simulated/arbiter.hpp"
#include "node/simulated/burst_plan.hpp"
#include "node/simulated/links.hpp"
#include "node/simulated/random.hpp"
#include "node/simulated/store_pipeline.hpp"
#include "node/simulated/wake_queue.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::simulated {

class SourceDevice {
 public:
  /// `arrivals`: the links into every device of the node, by device index; it must outlive this object.
  SourceDevice(const SimulatedHardware& hardware, const BurstPlan& plan, std::vector<int> destinations,
               std::uint64_t seed, std::vector<Links>& arrivals);

  /// Time at which the next packet can be sent; `never` if nothing is left to do.
  [[nodiscard]] Picoseconds next_time() const;
  /// Sends that packet.
  void step();

  /// Stops the producers: none starts another burst, and bursts in flight continue to their end.
  void stop() { stopped_ = true; }

  [[nodiscard]] const BurstTrace& trace() const { return trace_; }
  [[nodiscard]] std::int64_t bursts_ended() const { return bursts_ended_; }
  [[nodiscard]] int fewest_bursts_ended() const;
  [[nodiscard]] std::int64_t bytes_stored() const { return bursts_started_ * plan_.bytes; }
  [[nodiscard]] std::int64_t bytes_delivered() const { return bytes_delivered_; }

 private:
  struct Producer {
    StorePipeline pipeline;
    int multiprocessor = 0;
    /// The arbiter has the producer's next packet, or will have it at a time that is already queued.
    bool head_known = false;
    Picoseconds next_allowed = 0;  ///< an SM's own rate towards a peer
    std::int64_t taken_of_burst = 0;
    int bursts_started = 0;
    int bursts_ended = 0;
    int bursts_drained = 0;
    Picoseconds resume_after_drain = never;  ///< end of the gap of a producer that also waits for its stores
  };
  /// A barrier: all producers arrive, then all continue.
  struct Rendezvous {
    int arrived = 0;
    Picoseconds latest = 0;
  };

  void start_burst(int producer, Picoseconds time);
  void start_all(Picoseconds time);
  void advance_pending();
  void burst_issued(int producer, Picoseconds issued);
  void burst_drained(int producer, Picoseconds taken, Picoseconds acknowledged);
  void arrive(Picoseconds time, Picoseconds delay);
  void queue_head(int producer);
  void send(int producer, Picoseconds time);
  Picoseconds deliver(std::size_t destination, Picoseconds time, Picoseconds duration);
  [[nodiscard]] std::size_t destination_of(int producer) const;
  [[nodiscard]] bool drains_before(int burst) const { return burst % plan_.train_length == 0; }
  [[nodiscard]] Picoseconds end_of_gap(Picoseconds issued);

  const SimulatedHardware& hardware_;
  BurstPlan plan_;
  std::vector<int> destinations_;
  std::vector<Links>& arrivals_;
  Random random_;

  std::vector<Producer> producers_;
  std::vector<int> producer_on_;  // by SM
  Arbiter arbiter_;
  WakeQueue wake_queue_;
  FabricQueue queue_;
  Links departures_;
  Picoseconds crossbar_free_ = 0;
  std::vector<FabricCredits> credits_;  // by position in destinations_
  Rendezvous rendezvous_;
  std::vector<int> to_advance_;
  Picoseconds now_ = 0;
  int chosen_ = -1;  // producer whose packet waits for a fabric credit
  bool stopped_ = false;

  BurstTrace trace_;
  std::int64_t bursts_started_ = 0;
  std::int64_t bursts_ended_ = 0;
  std::int64_t bytes_delivered_ = 0;
};

}  // namespace xstage::simulated
