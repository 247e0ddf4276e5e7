#include "bench/plan_json.hpp"

#include <fmt/format.h>

#include <string_view>

#include "xstage/node.hpp"

namespace xstage::bench {

namespace {

std::string_view name_of(all_to_all::Transfer transfer) {
  switch (transfer) {
    case all_to_all::Transfer::rows:
      return "rows";
    case all_to_all::Transfer::boxes:
      return "boxes";
    case all_to_all::Transfer::by_rule:
      break;
  }
  return "by_rule";
}

}  // namespace

Json plan_json(const Plan& plan) {
  return {{"store_path", xstage::name_of(plan.store_path)},
          {"drain_gb_per_s", plan.drain_gb_per_s},
          {"store_rows", plan.store_rows},
          {"window", plan.window},
          {"store_interval_ns", plan.store_interval_ns},
          {"push_interval_ns", plan.push_interval_ns},
          {"staging_chunks", plan.staging_chunks},
          {"staging_over_ring", plan.staging_over_ring},
          {"stage_blocks", plan.stage_blocks},
          {"push_warps", plan.push_warps},
          {"tile_columns", plan.tile_columns},
          {"cluster", fmt::format("{}x{}", plan.cluster_rows, plan.cluster_columns)},
          {"stages", plan.stages},
          {"issuers", plan.issuers},
          {"group_rows", plan.group_rows},
          {"gather", plan.gather == GatherPath::push ? "push" : "copy_engine"},
          {"chunk_rows", plan.chunk_rows},
          {"chunk_depth", plan.chunk_depth},
          {"all_reduce", plan.all_reduce == AllReduceAlgorithm::one_shot ? "one_shot" : "two_shot"}};
}

Json plan_json(const attention::Plan& plan) {
  return {{"store_path", xstage::name_of(plan.store_path)},
          {"store_interval_ns", plan.store_interval_ns},
          {"issuers", plan.issuers},
          {"split", plan.split}};
}

Json plan_json(const all_to_all::Plan& plan) {
  return {{"transfer", name_of(plan.transfer)},
          {"chunk_bytes", plan.chunk_bytes},
          {"stages", plan.stages},
          {"issuers", plan.issuers},
          {"peer_issuers", plan.peer_issuers}};
}

Json plan_json(const moe::Plan& plan) {
  return {{"issuers", plan.issuers}, {"combine", plan.combine == moe::Combine::rows ? "rows" : "partial_sums"}};
}

}  // namespace xstage::bench
