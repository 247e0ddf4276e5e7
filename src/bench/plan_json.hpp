#pragma once
// Plans as fields of a row.

#include "bench/row_fields.hpp"
#include "xstage/all_to_all.hpp"
#include "xstage/attention.hpp"
#include "xstage/moe.hpp"
#include "xstage/plan.hpp"

namespace xstage::bench {

[[nodiscard]] Json plan_json(const Plan& plan);
[[nodiscard]] Json plan_json(const attention::Plan& plan);
[[nodiscard]] Json plan_json(const all_to_all::Plan& plan);
[[nodiscard]] Json plan_json(const moe::Plan& plan);

}  // namespace xstage::bench
