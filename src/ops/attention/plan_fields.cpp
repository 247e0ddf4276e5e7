#include <iterator>

#include "base/fields.hpp"
#include "ops/attention/problem.hpp"
#include "xstage/plan.hpp"

namespace xstage::attention {

namespace {

constexpr fields::Field<Plan> table[] = {
    fields::choice<&Plan::store_path>("store_path", store_path_names, "how results are stored to peers",
                                      {StorePath::store16, StorePath::bulk}),
    fields::field("drain_gb_per_s", &Plan::drain_gb_per_s, fields::RealNumbers{least_drain_gb_per_s},
                  "drain rate that pauses between stores are computed from"),
    fields::field("store_interval_ns", &Plan::store_interval_ns, fields::at_least(0).or_by_rule(-1),
                  "least time between two bulk stores of 4 KiB to peers by one warp"),
    fields::field("issuers", &Plan::issuers, fields::between(1, most_issuers).or_by_rule(0), "CTAs"),
    fields::field("split", &Plan::split, fields::one_of({0, 1}).or_by_rule(-1),
                  "1: tiles left over for less than a round of all CTAs are split along their keys")};
static_assert(std::size(table) == fields::count_members<Plan>(), "every member has its field");

}  // namespace

fields::Table<Plan> plan_fields() { return table; }

}  // namespace xstage::attention
