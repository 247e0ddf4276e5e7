#include <array>
#include <iterator>

#include "base/fields.hpp"
#include "ops/all_to_all/problem.hpp"

namespace xstage::all_to_all {

namespace {

constexpr std::array<std::string_view, 3> transfers{"by_rule", "rows", "boxes"};

constexpr fields::Field<Plan> table[] = {
    fields::choice<&Plan::transfer>("transfer", transfers, "how the rows of a chunk leave shared memory"),
    fields::field("chunk_bytes", &Plan::chunk_bytes, fields::between(1, most_shared_bytes).or_by_rule(0),
                  "what is loaded at once"),
    fields::field("stages", &Plan::stages, fields::between(stores_under_way + 1, most_stages).or_by_rule(0),
                  "chunks that a CTA holds"),
    fields::field("issuers", &Plan::issuers, fields::between(1, most_issuers).or_by_rule(0), "CTAs"),
    fields::field("peer_issuers", &Plan::peer_issuers, fields::between(1, most_issuers).or_by_rule(0),
                  "CTAs that store to peers, the first of them")};
static_assert(std::size(table) == fields::count_members<Plan>(), "every member has its field");

}  // namespace

fields::Table<Plan> plan_fields() { return table; }

}  // namespace xstage::all_to_all
