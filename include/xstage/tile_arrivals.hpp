#pragma once

#include <cstdint>

namespace xstage {

/// Arrival flags of a result [rows, columns] of gemm_all_to_all, which all ranks store tile by tile into one rank's
/// memory. Flag [source, row / 64, column / tile_columns] holds the number of the last call whose tile has arrived
/// there; `row` counts from the source's first one. Load it with acquire semantics at system scope, followed by a proxy
/// fence before reads by TMA: the results were written by the async proxy of other GPUs.
struct TileArrivals {
  const std::uint32_t* flags = nullptr;
  const std::uint32_t* next_call = nullptr;  // on this rank: 1 + the number of the call whose kernel ended last
  std::int64_t source_flags = 0;             // distance of two sources in flags
  std::int64_t source_rows = 0;              // rows of each source; the last ones may have fewer
  std::int32_t column_tiles = 0;             // flags in a row of flags, which stands for 64 rows
  std::int32_t tile_columns = 0;
};

}  // namespace xstage
