#include "node/simulated/source_device.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "node/simulated/placement.hpp"

namespace xstage::simulated {
namespace {

/// Time from a complete drain to the next isolated burst or train: longer than any packet or acknowledgement is in
/// flight.
constexpr Picoseconds quiet_time = 2'000'000;

int packets(double bytes) { return std::max(1, static_cast<int>(bytes / static_cast<double>(packet_bytes))); }

}  // namespace

SourceDevice::SourceDevice(const SimulatedHardware& hardware, const BurstPlan& plan, std::vector<int> destinations,
                           std::uint64_t seed, std::vector<Links>& arrivals)
    : hardware_(hardware),
      plan_(plan),
      destinations_(std::move(destinations)),
      arrivals_(arrivals),
      random_(seed),
      producer_on_(static_cast<std::size_t>(multiprocessor_count(hardware)), -1),
      arbiter_(hardware.multiprocessors, packets(hardware.grant_bytes)),
      wake_queue_(static_cast<std::size_t>(plan.producers)),
      queue_(packets(hardware.fabric_queue_bytes)),
      departures_(hardware.links),
      credits_(destinations_.size(), FabricCredits(packets(hardware.fabric_credit_bytes))) {
  const Picoseconds crossbar = from_ns(hardware.crossbar_ns);
  producers_.reserve(static_cast<std::size_t>(plan.producers));
  for (const int multiprocessor : place_producers(hardware, plan.producers)) {
    producer_on_[static_cast<std::size_t>(multiprocessor)] = static_cast<int>(producers_.size());
    producers_.push_back({StorePipeline(plan.timing, plan.packets_per_burst, crossbar), multiprocessor});
  }
  trace_.clock_mhz = hardware.clock_mhz;
  trace_.producers.resize(producers_.size());
  start_all(0);
  advance_pending();
}

Picoseconds SourceDevice::next_time() const {
  if (chosen_ >= 0) {
    return std::max(now_, credits_[destination_of(chosen_)].ready_at());
  }
  const Picoseconds free = std::max({now_, crossbar_free_, plan_.remote ? queue_.ready_at() : 0});
  return arbiter_.empty() ? std::max(free, wake_queue_.next_time()) : free;
}

void SourceDevice::step() {
  now_ = next_time();
  if (chosen_ < 0) {
    wake_queue_.pop_due(now_, [this](int multiprocessor) { arbiter_.add(multiprocessor); });
    chosen_ = producer_on_[static_cast<std::size_t>(arbiter_.take())];
    if (plan_.remote && credits_[destination_of(chosen_)].ready_at() > now_) {
      return;
    }
  }
  send(std::exchange(chosen_, -1), now_);
  advance_pending();
}

int SourceDevice::fewest_bursts_ended() const {
  return std::min_element(producers_.begin(), producers_.end(),
                          [](const Producer& a, const Producer& b) { return a.bursts_ended < b.bursts_ended; })
      ->bursts_ended;
}

/// Destination of a producer's burst: producers and bursts take the destinations in turn.
std::size_t SourceDevice::destination_of(int producer) const {
  const auto turn = static_cast<std::size_t>(producer) +
                    static_cast<std::size_t>(producers_[static_cast<std::size_t>(producer)].bursts_drained);
  return turn % destinations_.size();
}

void SourceDevice::send(int producer, Picoseconds time) {
  Producer& sender = producers_[static_cast<std::size_t>(producer)];
  const bool last = ++sender.taken_of_burst == plan_.packets_per_burst;
  const Picoseconds acknowledged =
      deliver(destination_of(producer), time, last ? plan_.last_packet_time : plan_.packet_time);
  sender.pipeline.take_head(time + plan_.credit_return);
  sender.head_known = false;
  sender.next_allowed = time + plan_.packet_spacing;
  crossbar_free_ = time + plan_.take_interval;
  to_advance_.push_back(producer);
  if (last) {
    sender.taken_of_burst = 0;
    bytes_delivered_ += plan_.bytes;
    burst_drained(producer, time, acknowledged);
  }
}

/// Moves a packet through the queue, out of this device, over the wire, and into the destination. Returns the time at
/// which the acknowledgement is back.
Picoseconds SourceDevice::deliver(std::size_t destination, Picoseconds time, Picoseconds duration) {
  if (!plan_.remote) {
    return time + plan_.acknowledgement;
  }
  const Picoseconds sent = departures_.send(time, duration);
  queue_.put(sent - duration);
  Links& arrivals = arrivals_[static_cast<std::size_t>(destinations_[destination])];
  const Picoseconds received = arrivals.send(sent - duration + plan_.wire, duration);
  const Picoseconds acknowledged = received + plan_.acknowledgement;
  credits_[destination].spend(acknowledged);
  return acknowledged;
}

void SourceDevice::start_burst(int producer, Picoseconds time) {
  Producer& starter = producers_[static_cast<std::size_t>(producer)];
  ++starter.bursts_started;
  ++bursts_started_;
  trace_.producers[static_cast<std::size_t>(producer)].push_back({to_us(time), not_measured, not_measured});
  starter.pipeline.open_burst(time);
  to_advance_.push_back(producer);
}

void SourceDevice::start_all(Picoseconds time) {
  const Picoseconds skew = from_ns(hardware_.start_skew_ns);
  for (int producer = 0; producer < plan_.producers; ++producer) {
    start_burst(producer, time + random_.time_up_to(skew));
  }
}

/// Advances all pending producers. A producer may end several short bursts at once, and its end may open a barrier for
/// all, so this is a list and not a recursion.
void SourceDevice::advance_pending() {
  while (!to_advance_.empty()) {
    const int producer = to_advance_.back();
    to_advance_.pop_back();
    if (const auto end = producers_[static_cast<std::size_t>(producer)].pipeline.advance()) {
      to_advance_.push_back(producer);
      burst_issued(producer, *end);
    }
    queue_head(producer);
  }
}

void SourceDevice::queue_head(int producer) {
  Producer& owner = producers_[static_cast<std::size_t>(producer)];
  if (owner.head_known) {
    return;
  }
  if (!owner.pipeline.has_head()) {
    arbiter_.end_grant(owner.multiprocessor);
    return;
  }
  owner.head_known = true;
  const Picoseconds arrival = owner.pipeline.head_arrival();
  if (arrival <= owner.next_allowed && owner.next_allowed == now_ + plan_.packet_spacing) {
    wake_queue_.push_in_order(owner.next_allowed, owner.multiprocessor);
  } else {
    arbiter_.end_grant(owner.multiprocessor);
    wake_queue_.push(std::max(arrival, owner.next_allowed), owner.multiprocessor);
  }
}

/// End of the gap. A timed gap runs from the end of the issue; the loop around the burst takes its time in any case.
Picoseconds SourceDevice::end_of_gap(Picoseconds issued) {
  const Picoseconds loop = issued + from_ns(hardware_.loop_overhead_ns);
  if (plan_.gap == 0) {
    return loop;
  }
  const Picoseconds overhead = from_ns(hardware_.timer_overhead_ns) + random_.time_up_to(plan_.longest_overshoot);
  return std::max(loop, issued + plan_.gap + overhead);
}

void SourceDevice::burst_issued(int producer, Picoseconds issued) {
  Producer& owner = producers_[static_cast<std::size_t>(producer)];
  trace_.producers[static_cast<std::size_t>(producer)].back().issued_us = to_us(issued);
  ++owner.bursts_ended;
  ++bursts_ended_;
  if (stopped_ || (!plan_.loops && owner.bursts_started == plan_.bursts)) {
    return;
  }
  const Picoseconds gap_end = end_of_gap(issued);
  const bool behind_stores = plan_.reads_memory || (plan_.aligned && hardware_.barrier_behind_stores);
  if (drains_before(owner.bursts_started) || behind_stores) {
    owner.resume_after_drain = gap_end;
  } else if (plan_.aligned) {
    arrive(gap_end, from_ns(hardware_.barrier_ns));
  } else {
    start_burst(producer, gap_end);
  }
}

/// Called when the fabric has accepted the last packet of a producer's burst.
void SourceDevice::burst_drained(int producer, Picoseconds taken, Picoseconds acknowledged) {
  Producer& owner = producers_[static_cast<std::size_t>(producer)];
  const auto burst = static_cast<std::size_t>(owner.bursts_drained++);
  if (plan_.wants_visible) {
    trace_.producers[static_cast<std::size_t>(producer)][burst].visible_us = to_us(acknowledged);
  }
  const Picoseconds gap_end = std::exchange(owner.resume_after_drain, never);
  if (gap_end == never) {
    return;
  }
  if (drains_before(owner.bursts_started)) {
    arrive(std::max(gap_end, acknowledged), quiet_time);
    return;
  }
  const Picoseconds read = plan_.reads_memory ? from_ns(hardware_.read_latency_ns) : 0;
  const Picoseconds resume = std::max(gap_end, taken) + read;
  if (plan_.aligned) {
    arrive(resume, from_ns(hardware_.barrier_ns));
  } else {
    start_burst(producer, resume);
  }
}

void SourceDevice::arrive(Picoseconds time, Picoseconds delay) {
  rendezvous_.latest = std::max(rendezvous_.latest, time);
  if (++rendezvous_.arrived == plan_.producers) {
    const Picoseconds open = rendezvous_.latest + delay;
    rendezvous_ = {};
    start_all(open);
  }
}

}  // namespace xstage::simulated
