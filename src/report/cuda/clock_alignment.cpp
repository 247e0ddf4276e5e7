#include "report/cuda/clock_alignment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "fabric/clock_kernel.hpp"
#include "xstage/error.hpp"

namespace xstage::trace {

namespace {

// The kernels are loaded on their first launch, which takes milliseconds on each GPU.
constexpr std::uint64_t time_out_ns = 2'000'000'000;

void launch(const ClockParameters& parameters, int device, cudaStream_t stream) {
  const cuda::CurrentDevice current(device);
  cuda::check(launch_clock_exchange(parameters, stream), fmt::format("comparing the clock of GPU {}", device));
}

/// Pairs the times that the two ends recorded.
std::vector<ClockExchange> exchanges_of(const ClockLog& leader, const ClockLog& follower) {
  std::vector<ClockExchange> exchanges;
  for (std::uint32_t index = 0; index < clock_exchanges; ++index) {
    exchanges.push_back(
        {static_cast<std::int64_t>(leader.first_ns[index]), static_cast<std::int64_t>(follower.first_ns[index]),
         static_cast<std::int64_t>(follower.second_ns[index]), static_cast<std::int64_t>(leader.second_ns[index])});
  }
  return exchanges;
}

}  // namespace

ClockAlignment::ClockAlignment(std::vector<HeapRank*> ranks) : ranks_(std::move(ranks)) {
  for (HeapRank* rank : ranks_) {
    inboxes_.push_back(rank->allocate("clock comparison", sizeof(std::uint32_t)));
    if (logs_.count(rank->device()) == 0) {
      logs_.emplace(rank->device(), cuda::DeviceBuffer(rank->device(), sizeof(ClockLog), "the clock comparison"));
      streams_.emplace(rank->device(), rank->device());
    }
  }
}

ClockAlignment::~ClockAlignment() {
  for (std::size_t rank = 0; rank < inboxes_.size(); ++rank) {
    try {
      ranks_[rank]->release(inboxes_[rank]);
    } catch (const std::exception&) {
      // Ranks that are out of step have already got an error elsewhere, and a destructor must not throw.
    }
  }
}

std::vector<RankClock> ClockAlignment::measure() {
  std::map<int, ClockOffset> of_device{{ranks_.front()->device(), ClockOffset{}}};
  std::vector<RankClock> clocks;
  for (HeapRank* rank : ranks_) {
    const int device = rank->device();
    if (of_device.count(device) == 0) {
      of_device.emplace(device, compare_with_first(*rank));
    }
    clocks.push_back({device, of_device.at(device).offset_ns, of_device.at(device).uncertainty_ns});
  }
  return clocks;
}

ClockOffset ClockAlignment::compare_with_first(HeapRank& rank) {
  HeapRank& first = *ranks_.front();
  const auto word = [this](HeapRank& of, int whose) {
    const PeerView view = of.view(inboxes_[static_cast<std::size_t>(of.rank())]);
    return reinterpret_cast<std::uint32_t*>(view.base[whose]);
  };
  const auto parameters = [&](HeapRank& own, const HeapRank& other, bool leads) {
    return ClockParameters{word(own, own.rank()),
                           word(own, other.rank()),
                           logs_.at(own.device()).as<ClockLog>(),
                           messages_,
                           leads ? 1 : 0,
                           time_out_ns};
  };
  launch(parameters(rank, first, false), rank.device(), streams_.at(rank.device()).get());
  launch(parameters(first, rank, true), first.device(), streams_.at(first.device()).get());
  messages_ += clock_exchanges;
  for (const int device : {rank.device(), first.device()}) {
    const cuda::CurrentDevice current(device);
    cuda::check(cudaStreamSynchronize(streams_.at(device).get()), fmt::format("comparing the clock of GPU {}", device));
  }
  const ClockLog leader = logs_.at(first.device()).read<ClockLog>(1).front();
  const ClockLog follower = logs_.at(rank.device()).read<ClockLog>(1).front();
  check_completed(std::min(leader.completed, follower.completed), rank.device());
  return best_offset(exchanges_of(leader, follower), std::max(leader.step_ns, follower.step_ns));
}

void ClockAlignment::check_completed(std::uint32_t completed, int device) const {
  if (completed < clock_exchanges) {
    throw DeviceError(
        fmt::format("comparing the clocks of GPU {} and GPU {}: {} of {} messages were answered within {} s; both GPUs "
                    "must be free of other work",
                    ranks_.front()->device(), device, completed, clock_exchanges, time_out_ns / 1'000'000'000));
  }
}

}  // namespace xstage::trace
