#pragma once

#include <cstdint>

namespace xstage {

/// Flags of a result [rows, columns] that all ranks store into one rank's memory tile by tile: of gemm_all_to_all.
/// Flag [source, row / 64, column / tile_columns], the row counted from the source's first one, holds the number of the
/// last call whose results have arrived there. Acquire it at system scope; results were written by the async proxy.
struct TileArrivals {
  const std::uint32_t* flags = nullptr;
  const std::uint32_t* next_call = nullptr;  // number of the call after the one whose kernel has ended last, this rank
  std::int64_t source_flags = 0;             // from one source's flags to the next one's
  std::int64_t source_rows = 0;              // rows of each source, the last ones may have fewer
  std::int32_t column_tiles = 0;             // flags of 64 rows
  std::int32_t tile_columns = 0;
};

}  // namespace xstage
