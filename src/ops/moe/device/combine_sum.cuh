#pragma once
// Warps that add up the rows of a token in the order of its choices. Rows of this rank's own experts are read where
// Linear-2 wrote them, rows of peers from the slots in which they arrived. A peer's partial sum takes the place of its
// first row in the order.

#include "ops/moe/device/combine_add.cuh"

namespace xstage::kernels {

template <class Delay>
class CombineSum {
 public:
  __device__ CombineSum(const CombineLaunch& launch, const RolePlace& place, const Delay& delay)
      : launch_(launch),
        exchange_(launch.exchange),
        call_(launch.exchange.call, place.block),
        block_(place.block),
        blocks_(place.blocks),
        parts_(CombineParts::of(launch.exchange.tokens, launch.exchange.row_bytes, place.block, place.blocks)),
        groups_(min(launch.groups, max(1, parts_.own.count()))),
        group_warps_(place.warps / groups_),
        group_(place.warp / group_warps_),
        adder_(launch.exchange.top_k, group_warps_, place.warp % group_warps_),
        delay_(delay) {}

  __device__ void run(std::uint32_t epoch) {
    if (group_ >= groups_) {
      return;
    }
#pragma unroll 1
    for (std::int32_t part = parts_.own.begin + group_; part < parts_.own.end; part += groups_) {
      const char* row = row_of(part / parts_.count);
      if (!await(part, epoch)) {
        return;  // the output is invalid, and the report says so
      }
      delay_();
      adder_.add(row, bytes_of(part), launch_.output + std::int64_t{part / parts_.count} * exchange_.row_bytes);
    }
  }

 private:
  /// Polls until everything that peers send for this token, or part of one, has arrived. For the last part of the CTA
  /// it waits for the end of every sender instead. Each sender sends in order, so everything that peers send to this
  /// CTA has then arrived, also what no part needed.
  [[nodiscard]] __device__ bool await(std::int32_t part, std::uint32_t epoch) const {
    const bool all = launch_.overlaps == 0 || part + 1 == parts_.own.end;
    const auto number = static_cast<std::uint32_t>(part + 1 - parts_.own.begin);
    const std::uint32_t expected = flag_value(epoch, all ? MoeExchangePad::all_sent : number);
    const std::int32_t flags = exchange_.call.world * launch_.senders;
    bool arrived = true;
#pragma unroll 1
    for (std::int32_t index = lane_index(); index < flags; index += 32) {
      const std::int32_t rank = index / launch_.senders;
      if (rank != exchange_.call.rank) {
        arrived = arrived && await_flag(rank, index % launch_.senders, epoch, expected);
      }
    }
    arrived = __all_sync(0xFFFFFFFFU, arrived) != 0;
    __syncwarp();  // orders the loads of all lanes behind what some lanes acquired; a vote alone orders nothing
    return arrived;
  }

  [[nodiscard]] __device__ bool await_flag(std::int32_t rank, std::int32_t sender, std::uint32_t epoch,
                                           std::uint32_t expected) const {
    const std::uint32_t flag = MoeExchangePad::flag(rank, block_, blocks_, sender);
    const std::uint32_t word = MoeExchangePad::combine_flags(exchange_.call.world, blocks_) + flag;
    return wait_at_least(call_.waits(), {WaitSite::returned_rows, rank, flag, epoch}, call_.own_signal(word), expected);
  }

  /// The row of this lane's choice. It is null if there is none, and if another lane holds the partial sum that
  /// contains it.
  [[nodiscard]] __device__ const char* row_of(std::int32_t token) const {
    const CallParameters& call = exchange_.call;
    const std::int64_t slot = std::int64_t{token} * exchange_.top_k + lane_index();
    const std::int64_t table = std::int64_t{call.rank} * exchange_.most_tokens * exchange_.top_k;
    const std::int32_t row =
        lane_index() < exchange_.top_k ? __ldcg(&exchange_.routes[call.rank][table + slot].row) : MoeRoute::none;
    if (launch_.partial_sums != 0) {
      const std::uint32_t same_rank = __match_any_sync(0xFFFFFFFFU, row);
      if (row < MoeRoute::none && __ffs(static_cast<std::int32_t>(same_rank)) - 1 != lane_index()) {
        return nullptr;
      }
    }
    if (row == MoeRoute::none) {
      return nullptr;
    }
    return row < MoeRoute::none ? launch_.slots[call.rank] + slot * exchange_.row_bytes
                                : exchange_.rows.results + std::int64_t{row} * exchange_.row_bytes;
  }

  /// Bytes of a row that belong to the part.
  [[nodiscard]] __device__ RowBytes bytes_of(std::int32_t part) const {
    return RowBytes::of_part(part % parts_.count, parts_.bytes, exchange_.row_bytes);
  }

  const CombineLaunch& launch_;
  const MoeExchange& exchange_;
  const CollectiveCall call_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  const CombineParts parts_;
  const std::int32_t groups_;
  const std::int32_t group_warps_;
  const std::int32_t group_;
  const RowAdder adder_;
  Delay delay_;
};

}  // namespace xstage::kernels
