#include <array>
#include <iterator>

#include "base/fields.hpp"
#include "ops/moe/device/parameters.hpp"
#include "ops/moe/problem.hpp"

namespace xstage::moe {

namespace {

constexpr std::array<std::string_view, 1> schedules{"unfused"};
constexpr std::array<std::string_view, 2> combines{"partial_sums", "rows"};
constexpr int most_issuers = static_cast<int>(kernels::CallPad::most_blocks);

constexpr fields::WholeNumbers warps = fields::between(1, kernels::most_moe_senders).or_by_rule(0);
constexpr fields::WholeNumbers tile_columns = fields::one_of({128, 256}).or_by_rule(0);

constexpr fields::Field<Plan> table[] = {
    fields::choice<&Plan::schedule>("schedule", schedules, "which kernels compute the layer"),
    fields::field("issuers", &Plan::issuers, fields::between(1, most_issuers).or_by_rule(0), "CTAs of each kernel"),
    fields::choice<&Plan::combine>("combine", combines, "what crosses between ranks behind Linear-2"),
    fields::field("dispatch_senders", &Plan::dispatch_senders, warps, "warps of a CTA that send tokens"),
    fields::field("dispatch_copiers", &Plan::dispatch_copiers,
                  fields::between(1, kernels::dispatch_warps - 2).or_by_rule(0),
                  "warps of a CTA that copy what peers have sent to its further rows"),
    fields::field("combine_senders", &Plan::combine_senders, warps, "warps of a CTA that send results to peers"),
    fields::field("combine_sender_groups", &Plan::combine_sender_groups, warps,
                  "groups of the warps that send partial sums, each with a token at a time"),
    fields::field("combine_adder_groups", &Plan::combine_adder_groups,
                  fields::between(1, kernels::combine_warps).or_by_rule(0),
                  "groups of the warps that add up, each with a token at a time"),
    fields::field("linear1_tile_columns", &Plan::linear1_tile_columns, tile_columns,
                  "columns of a tile of Linear-1; the rule picks them in each launch"),
    fields::field("linear2_tile_columns", &Plan::linear2_tile_columns, tile_columns,
                  "columns of a tile of Linear-2; the rule picks them in each launch")};
static_assert(std::size(table) == fields::count_members<Plan>(), "every member has its field");

}  // namespace

fields::Table<Plan> plan_fields() { return table; }

}  // namespace xstage::moe
