#pragma once
// Warps that add up a token's rows: in fp32, from 0 on, in the order of its choices. Rows of this rank's own experts
// are read where Linear-2 left them, those of peers from the slots into which they came.

#include <cuda_bf16.h>

#include "kernels/moe/combine_shared.cuh"

namespace xstage::kernels {

template <class Delay>
class CombineSum {
 public:
  /// `warp`: of those that add.
  __device__ CombineSum(const CombineLaunch& launch, std::int32_t block, std::int32_t blocks, std::int32_t warp,
                        const Delay& delay)
      : launch_(launch),
        exchange_(launch.exchange),
        call_(launch.exchange.call, block),
        block_(block),
        blocks_(blocks),
        parts_(CombineParts::of(launch.exchange.tokens, launch.exchange.row_bytes, block, blocks)),
        groups_(min(launch.groups, max(1, parts_.own.count()))),
        group_warps_(combine_adders(launch.senders) / groups_),
        group_(warp / group_warps_),
        member_(warp % group_warps_),
        delay_(delay) {}

  __device__ void run(std::uint32_t epoch) {
    if (group_ >= groups_) {
      return;
    }
#pragma unroll 1
    for (std::int32_t part = parts_.own.begin + group_; part < parts_.own.end; part += groups_) {
      const char* row = row_of(part / parts_.count);
      if (!await(part, epoch)) {
        return;  // the output means nothing, and the host is told
      }
      delay_();
      add_up(part, row);
    }
  }

 private:
  static constexpr std::int32_t at_once = 8;  // rows whose loads are under way together
  static constexpr std::int32_t columns = 2;  // parts of each of them
  static constexpr std::int32_t step = 16;    // bytes of a lane

  /// Until all that peers send for this token, or part of one, has arrived. Not awaited for what they send for nobody:
  /// at the end of the last token everything is here, since each of them sends in order.
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
    __syncwarp();  // all lanes read what some of them have acquired; a vote orders nothing
    return arrived;
  }

  [[nodiscard]] __device__ bool await_flag(std::int32_t rank, std::int32_t sender, std::uint32_t epoch,
                                           std::uint32_t expected) const {
    const std::uint32_t flag = MoeExchangePad::flag(rank, block_, blocks_, sender);
    const std::uint32_t word = MoeExchangePad::combine_flags(exchange_.call.world, blocks_) + flag;
    return wait_at_least(call_.waits(), {MoeWaitSite::returned_rows, rank, flag, epoch}, call_.own_signal(word),
                         expected);
  }

  /// The row of this lane's choice; null where there is none.
  [[nodiscard]] __device__ const char* row_of(std::int32_t token) const {
    if (lane_index() >= exchange_.top_k) {
      return nullptr;
    }
    const CallParameters& call = exchange_.call;
    const std::int64_t slot = std::int64_t{token} * exchange_.top_k + lane_index();
    const std::int64_t table = std::int64_t{call.rank} * exchange_.most_tokens * exchange_.top_k;
    const std::int32_t row = __ldcg(&exchange_.routes[call.rank][table + slot].row);
    if (row == MoeRoute::none) {
      return nullptr;
    }
    return row == MoeRoute::elsewhere ? launch_.slots[call.rank] + slot * exchange_.row_bytes
                                      : exchange_.rows.results + std::int64_t{row} * exchange_.row_bytes;
  }

  __device__ void add_up(std::int32_t part, const char* row) const {
    char* output = launch_.output + std::int64_t{part / parts_.count} * exchange_.row_bytes;
    const std::int32_t begin = part % parts_.count * parts_.bytes;
    const std::int32_t end = min(begin + parts_.bytes, exchange_.row_bytes);
    const std::int32_t stride = group_warps_ * 32 * step;
    // All lanes take part in every turn: they tell each other where rows are.
#pragma unroll 1
    for (std::int32_t first = begin + member_ * 32 * step; first < end; first += columns * stride) {
      std::int32_t offsets[columns];
#pragma unroll
      for (std::int32_t column = 0; column < columns; ++column) {
        offsets[column] = first + column * stride + lane_index() * step;
      }
      float sums[columns][8] = {};
#pragma unroll 1
      for (std::int32_t choice = 0; choice < exchange_.top_k; choice += at_once) {
        add_rows(sums, row, choice, offsets, end);
      }
#pragma unroll
      for (std::int32_t column = 0; column < columns; ++column) {
        if (offsets[column] < end) {
          *reinterpret_cast<uint4*>(output + offsets[column]) = rounded(sums[column]);
        }
      }
    }
  }

  __device__ void add_rows(float (&sums)[columns][8], const char* row, std::int32_t choice,
                           const std::int32_t (&offsets)[columns], std::int32_t end) const {
    uint4 values[at_once][columns];
#pragma unroll
    for (std::int32_t index = 0; index < at_once; ++index) {
      const char* from = from_lane(row, choice + index);
#pragma unroll
      for (std::int32_t column = 0; column < columns; ++column) {
        values[index][column] = {0U, 0U, 0U, 0U};  // adding +0 changes no sum that began with it
        if (from != nullptr && offsets[column] < end) {
          values[index][column] = __ldcg(reinterpret_cast<const uint4*>(from + offsets[column]));
        }
      }
    }
#pragma unroll
    for (std::int32_t index = 0; index < at_once; ++index) {
#pragma unroll
      for (std::int32_t column = 0; column < columns; ++column) {
        add(sums[column], values[index][column]);
      }
    }
  }

  __device__ static void add(float (&sum)[8], const uint4& values) {
    const std::uint32_t words[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
    for (std::int32_t index = 0; index < 4; ++index) {
      sum[2 * index] += __uint_as_float(words[index] << 16U);
      sum[2 * index + 1] += __uint_as_float(words[index] & 0xFFFF0000U);
    }
  }

  [[nodiscard]] __device__ static uint4 rounded(const float (&sum)[8]) {
    std::uint32_t words[4];
#pragma unroll
    for (std::int32_t index = 0; index < 4; ++index) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(sum[2 * index], sum[2 * index + 1]);
      words[index] = reinterpret_cast<const std::uint32_t&>(pair);
    }
    return {words[0], words[1], words[2], words[3]};
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
  const std::int32_t member_;
  Delay delay_;
};

}  // namespace xstage::kernels
