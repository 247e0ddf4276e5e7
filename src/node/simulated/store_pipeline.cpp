#include "node/simulated/store_pipeline.hpp"

#include <algorithm>
#include <bit>

namespace xstage::simulated {

StorePipeline::StorePipeline(const StorePathTiming& timing, std::int64_t packets_per_burst, Picoseconds crossbar)
    : timing_(timing),
      packets_per_burst_(packets_per_burst),
      crossbar_(crossbar),
      last_enter_(-timing.issue_interval),
      last_leave_(-timing.egress_interval) {
  const std::int64_t reach = std::int64_t{timing.queue_packets} + timing.window_packets + 2;
  const std::uint64_t slots = std::bit_ceil(static_cast<std::uint64_t>(reach));
  mask_ = static_cast<std::int64_t>(slots) - 1;
  enter_.resize(slots);
  leave_.resize(slots);
  credit_.resize(slots);
}

void StorePipeline::open_burst(Picoseconds start) {
  opened_ += packets_per_burst_;
  first_store_ = start + timing_.begin;
  open_ = true;
}

/// Moves packets into the queue, one issue interval apart, each when the queue has a free place.
bool StorePipeline::enter_queue() {
  const std::int64_t before = entered_;
  const std::int64_t queue = timing_.queue_packets;
  const std::int64_t known = std::min(opened_, left_ + queue);
  for (; entered_ < known; ++entered_) {
    Picoseconds time = std::max(last_enter_ + timing_.issue_interval, first_store_);
    if (entered_ >= queue) {
      time = std::max(time, leave_[slot(entered_ - queue)]);
    }
    enter_[slot(entered_)] = last_enter_ = time;
  }
  return entered_ != before;
}

/// Moves packets out of the queue, one egress interval apart, each when the window has a free place.
bool StorePipeline::leave_queue() {
  const std::int64_t before = left_;
  const std::int64_t window = timing_.window_packets;
  const bool has_queue = timing_.queue_packets > 0;
  const std::int64_t known = std::min(has_queue ? entered_ : opened_, taken_ + window);
  for (; left_ < known; ++left_) {
    Picoseconds time = std::max(last_leave_ + timing_.egress_interval, has_queue ? enter_[slot(left_)] : first_store_);
    if (left_ >= window) {
      time = std::max(time, credit_[slot(left_ - window)]);
    }
    leave_[slot(left_)] = last_leave_ = time;
  }
  return left_ != before;
}

/// End of the issue. The clock is read behind a barrier of the CTA: when the last packet has entered the queue, or the
/// bulk engine has read it.
std::optional<Picoseconds> StorePipeline::issue_end() const {
  const bool has_queue = timing_.queue_packets > 0;
  if ((has_queue ? entered_ : left_) < opened_) {
    return std::nullopt;
  }
  return (has_queue ? last_enter_ : last_leave_) + timing_.end;
}

std::optional<Picoseconds> StorePipeline::advance() {
  bool moved = true;
  while (moved) {
    moved = timing_.queue_packets > 0 && enter_queue();
    moved = leave_queue() || moved;
  }
  if (!open_) {
    return std::nullopt;
  }
  const std::optional<Picoseconds> end = issue_end();
  open_ = !end;
  return end;
}

}  // namespace xstage::simulated
