#pragma once
// A warp that completes the tokens which some warps of peers send. A token crosses the fabric once, into the first of
// its rows here. The copier copies it to its other rows, and writes weight and origin of each row, soon after the
// arrival, while the row is in L2. It takes the tokens of its senders in turn, as they arrive; when all copiers have
// acquired the last flags of their senders, everything has arrived.
//
// It copies through registers. Bulk copies through shared memory would need a proxy fence after each flag, and that
// fence waits 5 us for the multiprocessor's own bulk stores in flight.

#include "ops/moe/device/dispatch_places.cuh"

namespace xstage::kernels {

template <class Delay>
class DispatchCopier {
 public:
  __device__ DispatchCopier(const DispatchLaunch& launch, const DispatchShared& shared, const RolePlace& place,
                            const Delay& delay)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        call_(launch.exchange.call, place.block),
        block_(place.block),
        blocks_(place.blocks),
        copier_(place.warp),
        delay_(delay) {}

  __device__ void run() {
    if (shared_.words().failed == 0) {
      find_streams();
      take_all();
    }
  }

 private:
  /// The tokens that one warp of a peer's CTA sends. Lane k keeps the numbers of this copier's stream k.
  struct Stream {
    std::int32_t source;
    std::int32_t sender;
    std::int32_t first;  // first of its tokens, counted on their rank
    std::int32_t count;
    std::uint32_t seen;  // its flag, when it was last polled
  };
  /// One token of a stream. After the last token comes an end item, whose flag says that nothing more follows.
  struct Item {
    std::int32_t stream;
    std::int32_t number;
  };

  static constexpr std::int32_t step = 16;     // bytes of a lane
  static constexpr std::int32_t at_once = 16;  // loads of a lane that are in flight together

  /// Finds the streams of this copier, which come from the CTAs of all peers with this CTA's number. Each rank begins
  /// with another peer. If there are fewer streams than copiers, several copiers take turns at a stream.
  __device__ void find_streams() {
    epoch_ = shared_.words().epoch;
    const std::int32_t streams = (exchange_.call.world - 1) * launch_.senders;
    turns_ = max(1, launch_.copiers / streams);
    const std::int32_t first = copier_ % streams;
    const std::int32_t distance = min(streams, launch_.copiers);
    turn_ = copier_ / streams;
    streams_ = turn_ < turns_ ? (streams - first + distance - 1) / distance : 0;
    stream_.count = -1;  // no token and no end item
    if (lane_index() < streams_) {
      const std::int32_t index = first + lane_index() * distance;
      stream_.source = (exchange_.call.rank + 1 + index / launch_.senders) % exchange_.call.world;
      stream_.sender = index % launch_.senders;
      const auto tokens = MoeTokenRange::of(shared_.words().of_ranks[MoeCountLine::tokens][stream_.source],
                                            block_ * launch_.senders + stream_.sender, blocks_ * launch_.senders);
      stream_.first = tokens.begin;
      stream_.count = tokens.count();
    }
    stream_.seen = flag_value(epoch_, 0);
    longest_ = __reduce_max_sync(0xFFFFFFFFU, stream_.count);
  }

  /// Takes all tokens. If a token is known to have arrived, its routes are read while the token before it is copied.
  __device__ void take_all() {
    Item item = next({streams_ - 1, turn_ - turns_});
    bool is_read = false;
    MoeRoute route{};
#pragma unroll 1
    while (item.number <= longest_) {
      if (!await(item)) {
        return;
      }
      delay_();
      if (!is_read) {
        route = read_route(item);
      }
      const MoeRoute current = route;
      const Item following = next(item);
      is_read = following.number <= longest_ && has_come(following);
      if (is_read) {
        route = read_route(following);
      }
      if (!is_end(item)) {
        copy(of_stream(stream_.source, item), of_stream(stream_.first, item) + item.number, current);
      }
      item = following;
    }
  }

  /// The next token, with the streams in turn.
  [[nodiscard]] __device__ Item next(Item item) const {
    do {
      ++item.stream;
      if (item.stream == streams_) {
        item = {0, item.number + turns_};
      }
    } while (item.number <= longest_ && item.number > of_stream(stream_.count, item));
    return item;
  }

  template <class Value>
  [[nodiscard]] __device__ static Value of_stream(Value value, const Item& item) {
    return __shfl_sync(0xFFFFFFFFU, value, item.stream);
  }
  [[nodiscard]] __device__ bool is_end(const Item& item) const { return item.number == of_stream(stream_.count, item); }
  /// Value that the item's flag must have reached.
  [[nodiscard]] __device__ std::uint32_t expected(const Item& item) const {
    return flag_value(epoch_, is_end(item) ? MoeExchangePad::all_sent : static_cast<std::uint32_t>(item.number) + 1U);
  }
  /// Whether the item has arrived, by the last poll.
  [[nodiscard]] __device__ bool has_come(const Item& item) const {
    return reached(of_stream(stream_.seen, item), expected(item));
  }

  /// Waits until the item has arrived. Returns false if the wait gave up.
  __device__ bool await(const Item& item) {
    if (has_come(item)) {
      return true;
    }
    const std::int32_t source = of_stream(stream_.source, item);
    const std::uint32_t flag = MoeExchangePad::flag(source, block_, blocks_, of_stream(stream_.sender, item));
    const std::uint32_t* word = call_.own_signal(MoeExchangePad::dispatch_flags + flag);
    const std::uint32_t needed = expected(item);
    // Each lane acquires the flag itself, since it reads the data, and no lane relies on a value that others have not
    // seen.
    std::uint32_t seen = load_acquire(word);
    seen =
        needed + static_cast<std::uint32_t>(__reduce_min_sync(0xFFFFFFFFU, static_cast<std::int32_t>(seen - needed)));
    bool arrived = true;
    if (!reached(seen, needed)) {
      arrived = wait_at_least(call_.waits(), {WaitSite::sent_tokens, source, flag, epoch_}, word, needed);
      seen = needed;
    }
    stream_.seen = lane_index() == item.stream ? seen : stream_.seen;
    return __all_sync(0xFFFFFFFFU, arrived) != 0;
  }

  __device__ void copy(std::int32_t source, std::int32_t token, const MoeRoute& route) {
    if (route.row >= 0) {
      exchange_.rows.weights[route.row] = route.weight;
      exchange_.rows.origins[route.row] = {source, token * exchange_.top_k + lane_index()};
    }
    const std::uint32_t with_rows = __ballot_sync(0xFFFFFFFFU, route.row >= 0);
    const std::uint32_t others = with_rows & (with_rows - 1U);
    if (others == 0U) {
      return;  // no row, or only the one that has arrived
    }
    char* row = exchange_.rows.tokens + std::int64_t{max(route.row, 0)} * exchange_.row_bytes;
    const char* from = from_lane(row, __ffs(static_cast<std::int32_t>(with_rows)) - 1);
#pragma unroll 1
    for (std::int32_t first = 0; first < exchange_.row_bytes; first += 32 * step * at_once) {
      copy_part(from, row, others, first + lane_index() * step);
    }
  }

  __device__ void copy_part(const char* from, char* row, std::uint32_t others, std::int32_t first) const {
    uint4 values[at_once];
#pragma unroll
    for (std::int32_t index = 0; index < at_once; ++index) {
      const std::int32_t offset = first + index * 32 * step;
      if (offset < exchange_.row_bytes) {
        values[index] = __ldcg(reinterpret_cast<const uint4*>(from + offset));
      }
    }
    each_bit(others, [&](std::int32_t lane) {
      char* to = from_lane(row, lane);
#pragma unroll
      for (std::int32_t index = 0; index < at_once; ++index) {
        const std::int32_t offset = first + index * 32 * step;
        if (offset < exchange_.row_bytes) {
          // Evicted from L2 first, like the rows that senders write here.
          __stcs(reinterpret_cast<uint4*>(to + offset), values[index]);
        }
      }
    });
  }

  /// The route of this lane's choice; lanes without a choice have no row.
  [[nodiscard]] __device__ MoeRoute read_route(const Item& item) const {
    const std::int32_t source = of_stream(stream_.source, item);
    const std::int32_t token = of_stream(stream_.first, item) + item.number;
    const bool ends = is_end(item);
    if (lane_index() >= exchange_.top_k || ends) {
      return {MoeRoute::none, 0.0F};
    }
    const std::int64_t place = (std::int64_t{source} * exchange_.most_tokens + token) * exchange_.top_k + lane_index();
    const float2 route = __ldcg(reinterpret_cast<const float2*>(exchange_.routes[exchange_.call.rank] + place));
    return {__float_as_int(route.x), route.y};
  }

  const DispatchLaunch& launch_;
  const MoeExchange& exchange_;
  const DispatchShared& shared_;
  const CollectiveCall call_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  const std::int32_t copier_;
  Delay delay_;
  std::uint32_t epoch_ = 0;
  std::int32_t streams_ = 0;
  std::int32_t turns_ = 1;  // copiers of a stream, each of which takes every `turns_`th token
  std::int32_t turn_ = 0;
  std::int32_t longest_ = 0;  // tokens of the longest stream
  Stream stream_{};
};

}  // namespace xstage::kernels
