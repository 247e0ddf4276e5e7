#include <array>
#include <iterator>

#include "base/fields.hpp"
#include "kernels/collective/call_parameters.hpp"
#include "moe/problem.hpp"

namespace xstage::moe {

namespace {

constexpr std::array<std::string_view, 1> schedules{"unfused"};
constexpr std::array<std::string_view, 2> combines{"partial_sums", "rows"};
constexpr int most_issuers = static_cast<int>(kernels::CallPad::most_blocks);

constexpr fields::Field<Plan> table[] = {
    fields::choice<&Plan::schedule>("schedule", schedules, "which kernels compute the layer"),
    fields::field("issuers", &Plan::issuers, fields::between(1, most_issuers).or_by_rule(0), "CTAs of each kernel"),
    fields::choice<&Plan::combine>("combine", combines, "what crosses between ranks behind Linear-2")};
static_assert(std::size(table) == fields::count_members<Plan>(), "every member has its field");

}  // namespace

fields::Table<Plan> plan_fields() { return table; }

}  // namespace xstage::moe
