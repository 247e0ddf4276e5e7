#include "bench/row_fields.hpp"

#include <cmath>

namespace xstage::bench {

double rounded(double microseconds) { return std::round(microseconds * 1000) / 1000; }

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace xstage::bench
