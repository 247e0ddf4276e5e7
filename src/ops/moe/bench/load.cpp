#include "ops/moe/bench/load.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "bench/row_fields.hpp"

namespace xstage::bench {

namespace {

constexpr std::int64_t element_bytes = 2;

template <typename Value>
void append_bytes(std::string& text, const std::vector<Value>& values) {
  const std::size_t bytes = values.size() * sizeof(Value);
  if (bytes == 0) {
    return;
  }
  const std::size_t before = text.size();
  text.resize(before + bytes);
  std::memcpy(text.data() + before, values.data(), bytes);
}

Json cell_json(const MoeCell& cell, std::size_t offset) {
  return {{"shape", cell.shape.name},
          {"hidden", cell.shape.hidden},
          {"intermediate", cell.shape.intermediate},
          {"experts_per_rank", cell.shape.experts_per_rank},
          {"top_k", cell.shape.top_k},
          {"tokens", cell.tokens},
          {"routing", routing_name(cell.skew)},
          {"remote_share", share_text(cell.remote_share)},
          {"offset", offset}};
}

}  // namespace

MoeLoad load_of(const MoeCell& cell, const moe::Routing& routing) {
  const std::int64_t row_bytes = cell.shape.hidden * element_bytes;
  const std::vector<std::int64_t> loads = moe::expert_loads(routing);
  MoeLoad load;
  for (int rank = 0; rank < cell.ranks; ++rank) {
    std::int64_t rows = 0;
    for (int expert = 0; expert < cell.shape.experts_per_rank; ++expert) {
      rows += loads[static_cast<std::size_t>(rank) * static_cast<std::size_t>(cell.shape.experts_per_rank) +
                    static_cast<std::size_t>(expert)];
    }
    const moe::Traffic traffic = moe::traffic_of(routing, rank);
    load.rows = std::max(load.rows, rows);
    load.dispatch_bytes = std::max(load.dispatch_bytes, traffic.copies * row_bytes);
    load.combine_bytes = std::max(load.combine_bytes, traffic.partial_sums * row_bytes);
    load.combine_rows_bytes = std::max(load.combine_rows_bytes, traffic.returned * row_bytes);
  }
  return load;
}

std::string routings_file(const std::vector<MoeCell>& cells) {
  std::string body;
  Json header{{"schema", "xstage.routings/1"}, {"ranks", cells.empty() ? 0 : cells.front().ranks}};
  Json& described = header["cells"] = Json::array();
  for (const MoeCell& cell : cells) {
    described.push_back(cell_json(cell, body.size()));
    for (const moe::RankRouting& rank : moe::make_routing(routing_request(cell)).ranks) {
      append_bytes(body, rank.experts);
      append_bytes(body, rank.weights);
    }
  }
  return header.dump() + "\n" + body;
}

}  // namespace xstage::bench
