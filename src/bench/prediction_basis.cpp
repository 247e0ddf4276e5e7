#include "bench/prediction_basis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "xstage/error.hpp"
#include "xstage/node.hpp"

namespace xstage::bench {

void check_basis(const PredictionBasis& basis) {
  constexpr double bytes_of_tile = 65536;
  const OperatingPointOrReason found =
      operating_point(basis.platform, StorePath::bulk, basis.multiprocessors, bytes_of_tile);
  if (!found.usable) {
    throw InputError(fmt::format("platform {}: {}", basis.platform.node.name, fmt::join(found.reasons, "; ")));
  }
}

}  // namespace xstage::bench
