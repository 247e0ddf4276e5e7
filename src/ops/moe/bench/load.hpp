#pragma once
// The work that a routing gives to the ranks of a cell, and files of routings, so that other programs measure the same
// ones. Host code without CUDA.

#include <cstdint>
#include <string>
#include <vector>

#include "ops/moe/bench/cells.hpp"
#include "ops/moe/bench/routing_counts.hpp"

namespace xstage::bench {

/// Each number is that of the rank where it is largest, since a call ends when the last rank has ended.
struct MoeLoad {
  std::int64_t rows = 0;                // choices that a rank's experts compute
  std::int64_t dispatch_bytes = 0;      // rows that leave a rank: one for each other rank that a token needs
  std::int64_t combine_bytes = 0;       // rows that leave a rank: one for each token of another rank that needs it
  std::int64_t combine_rows_bytes = 0;  // the same where each choice of such a token has its row
};
[[nodiscard]] MoeLoad load_of(const MoeCell& cell, const moe::Routing& routing);

/// One line of JSON, {"schema": "xstage.routings/1", "ranks", "cells": [{"shape", "hidden", "intermediate",
/// "experts_per_rank", "top_k", "tokens", "routing", "remote_share", "offset"}]}, and behind it, in the byte order of
/// the machine, for each cell and rank: int32 experts [tokens, top_k], fp32 router weights [tokens, top_k]. `offset`
/// counts bytes from the byte after the line. The cells have the same ranks.
[[nodiscard]] std::string routings_file(const std::vector<MoeCell>& cells);

}  // namespace xstage::bench
