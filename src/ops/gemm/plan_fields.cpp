#include <array>
#include <iterator>

#include "base/fields.hpp"
#include "ops/gemm/layout.hpp"

namespace xstage::gemm {

namespace {

using fields::between;
using fields::field;
using fields::one_of;

constexpr std::array<std::string_view, 2> gather_paths{"push", "copy_engine"};
constexpr std::array<std::string_view, 2> all_reduce_algorithms{"one_shot", "two_shot"};

constexpr fields::Field<Plan> table[] = {
    fields::choice<&Plan::store_path>("store_path", store_path_names,
                                      "how tiles are stored to peers: they leave from shared memory",
                                      {StorePath::bulk}),
    field("drain_gb_per_s", &Plan::drain_gb_per_s, fields::RealNumbers{least_drain_gb_per_s},
          "drain rate that pauses between stores are computed from"),
    field("store_rows", &Plan::store_rows, one_of({16, 32, 64}), "rows of 128 bytes in a group of remote stores"),
    field("window", &Plan::window, one_of({0, 1, 2, 4}), "groups that a store warp has under way; 0: no limit"),
    field("store_interval_ns", &Plan::store_interval_ns, fields::at_least(0).or_by_rule(-1),
          "least time between two groups of a store warp"),
    field("push_interval_ns", &Plan::push_interval_ns, fields::at_least(0).or_by_rule(-1),
          "least time between two pieces of 8 KiB that a warp pushes in an all-gather"),
    field("staging_chunks", &Plan::staging_chunks, between(1, kernels::max_staging).or_by_rule(0),
          "staging of a multiplying warpgroup, in chunks of 64 rows x 64 columns"),
    field("staging_over_ring", &Plan::staging_over_ring, one_of({0, 1}).or_by_rule(-1),
          "1: results are staged where operands were"),
    field("tile_columns", &Plan::tile_columns, one_of({64, 128, 256}), "columns of a tile of 128 rows"),
    field("cluster_rows", &Plan::cluster_rows, one_of({1, 2}), "CTAs of a cluster along the rows, which share B"),
    field("cluster_columns", &Plan::cluster_columns, one_of({1, 2}),
          "CTAs of a cluster along the columns, which share A"),
    field("stage_blocks", &Plan::stage_blocks, one_of({1, 2}).or_by_rule(0),
          "k-blocks of 64 in a stage of the operand ring"),
    field("stages", &Plan::stages, between(2, kernels::max_stages).or_by_rule(0), "stages of the operand ring"),
    field("issuers", &Plan::issuers, between(1, most_issuers).or_by_rule(0), "CTAs"),
    field("group_rows", &Plan::group_rows, between(1, 65536), "row clusters that are worked off together"),
    fields::choice<&Plan::gather>("gather", gather_paths, "how the shards of peers arrive in an all-gather"),
    field("push_warps", &Plan::push_warps, one_of({1, 2}).or_by_rule(0), "warps of a CTA that push in an all-gather"),
    field("chunk_rows", &Plan::chunk_rows, fields::multiples_of(kernels::gemm_tile_rows),
          "rows behind one flag of an all-gather"),
    field("chunk_depth", &Plan::chunk_depth, fields::multiples_of(kernels::gemm_tile_depth).or_by_rule(0),
          "depth behind one flag of an all-gather"),
    fields::choice<&Plan::all_reduce>("all_reduce", all_reduce_algorithms,
                                      "how partial sums become the same full sum on every rank")};
static_assert(std::size(table) == fields::count_members<Plan>(), "every member has its field");

}  // namespace

fields::Table<Plan> plan_fields() { return table; }

}  // namespace xstage::gemm
