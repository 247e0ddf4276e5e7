#include "ops/attention/bench/cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "files/csv.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

constexpr int heads_of_a_rank[] = {12, 24};
constexpr std::int64_t table_sequences[] = {1024, 2048, 4096, 8192, 16384, 32768, 65536};
constexpr std::int64_t extra_sequences[] = {4096, 8192, 16384};
constexpr int query_heads_of_a_group = 4;

/// No list on a command line is longer.
constexpr std::size_t most_parts = 1000;

constexpr std::string_view shape_rule =
    "table, full, extra or shapes SEQUENCExHEADS[:d64][:causal][:kvHEADS] of whole numbers above zero "
    "(16384x48:causal)";

[[noreturn]] void fail_shape(std::string_view text) {
  throw InputError(fmt::format("shape '{}': {}", text, shape_rule));
}

template <typename Number>
std::optional<Number> positive(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stopped != end || number <= 0) {
    return std::nullopt;
  }
  return number;
}

/// One of the words behind a shape.
bool read_option(std::string_view word, AttentionShape& shape) {
  if (word == "causal" && !shape.causal) {
    shape.causal = true;
    return true;
  }
  if (word.starts_with("kv") && shape.kv_heads == 0) {
    shape.kv_heads = positive<int>(word.substr(2)).value_or(0);
    return shape.kv_heads > 0;
  }
  if (word.starts_with("d")) {
    shape.head_dim = positive<int>(word.substr(1)).value_or(0);
    return shape.head_dim > 0;
  }
  return false;
}

AttentionShape parse_shape(std::string_view text) {
  const std::vector<std::string_view> words = files::split(text, ':', most_parts);
  const std::vector<std::string_view> extents = files::split(words.front(), 'x', most_parts);
  if (extents.size() != 2) {
    fail_shape(text);
  }
  AttentionShape shape;
  shape.sequence = positive<std::int64_t>(extents[0]).value_or(0);
  shape.heads = positive<int>(extents[1]).value_or(0);
  const bool understood =
      shape.sequence > 0 && shape.heads > 0 &&
      std::all_of(words.begin() + 1, words.end(), [&](std::string_view word) { return read_option(word, shape); });
  if (!understood) {
    fail_shape(text);
  }
  return shape;
}

std::vector<AttentionShape> full_shapes(int ranks) {
  std::vector<AttentionShape> shapes;
  for (const int heads : heads_of_a_rank) {
    for (const std::int64_t sequence : table_sequences) {
      shapes.push_back({sequence, heads * ranks, 0, 128, false});
    }
  }
  return shapes;
}

std::vector<AttentionShape> extra_shapes(int ranks) {
  std::vector<AttentionShape> shapes;
  for (const int of_a_rank : heads_of_a_rank) {
    const int heads = of_a_rank * ranks;
    for (const std::int64_t sequence : extra_sequences) {
      shapes.push_back({sequence, heads, 0, 64, false});
      shapes.push_back({sequence, heads, 0, 128, true});
      shapes.push_back({sequence, heads, heads / query_heads_of_a_group, 128, false});
    }
  }
  return shapes;
}

std::vector<AttentionShape> shapes_for(const AttentionShapeChoice& choice, int ranks) {
  using Kind = AttentionShapeChoice::Kind;
  if (choice.kind == Kind::listed) {
    return choice.listed;
  }
  std::vector<AttentionShape> shapes;
  if (choice.kind != Kind::extra) {
    shapes = full_shapes(ranks);
  }
  if (choice.kind != Kind::full) {
    const std::vector<AttentionShape> more = extra_shapes(ranks);
    shapes.insert(shapes.end(), more.begin(), more.end());
  }
  return shapes;
}

AttentionCell make_cell(const AttentionShape& shape, int ranks) {
  AttentionCell cell;
  cell.ranks = ranks;
  cell.problem.rows = shape.sequence;
  cell.problem.keys = shape.sequence;
  cell.problem.heads = shape.heads;
  cell.problem.kv_heads = shape.kv_heads > 0 ? shape.kv_heads : shape.heads;
  cell.problem.head_dim = shape.head_dim;
  cell.problem.causal = shape.causal;
  cell.problem.destination = ranks > 1 ? attention::Destination::to_owners : attention::Destination::local;
  attention::check_problem(cell.problem, ranks);
  return cell;
}

}  // namespace

AttentionShapeChoice parse_attention_shapes(std::string_view text) {
  using Kind = AttentionShapeChoice::Kind;
  if (text == "table") {
    return {Kind::table, {}};
  }
  if (text == "full") {
    return {Kind::full, {}};
  }
  if (text == "extra") {
    return {Kind::extra, {}};
  }
  AttentionShapeChoice choice{Kind::listed, {}};
  for (const std::string_view shape : files::split(text, ',', most_parts)) {
    choice.listed.push_back(parse_shape(shape));
  }
  return choice;
}

std::vector<AttentionCell> make_attention_cells(const AttentionShapeChoice& shapes, int ranks) {
  std::vector<AttentionCell> cells;
  for (const AttentionShape& shape : shapes_for(shapes, ranks)) {
    AttentionCell cell = make_cell(shape, ranks);
    const auto is_same = [&](const AttentionCell& other) { return shape_text(cell) == shape_text(other); };
    if (std::none_of(cells.begin(), cells.end(), is_same)) {
      cells.push_back(cell);
    }
  }
  return cells;
}

attention::Problem problem_of_rank(const AttentionCell& cell) {
  attention::Problem problem = cell.problem;
  problem.heads /= cell.ranks;
  problem.kv_heads /= cell.ranks;
  problem.destination = attention::Destination::local;
  return problem;
}

all_to_all::Problem exchange_of(const AttentionCell& cell) {
  const attention::Problem& problem = cell.problem;
  return {problem.sequences, problem.rows, problem.heads, problem.head_dim};
}

double operations_of_rank(const AttentionCell& cell) { return attention::flops(cell.problem) / cell.ranks; }

std::string shape_text(const AttentionCell& cell) {
  const attention::Problem& problem = cell.problem;
  std::string text = fmt::format("{}x{}", problem.rows, problem.heads);
  if (problem.head_dim != AttentionShape{}.head_dim) {
    text += fmt::format(":d{}", problem.head_dim);
  }
  if (problem.causal) {
    text += ":causal";
  }
  if (problem.kv_heads != problem.heads) {
    text += fmt::format(":kv{}", problem.kv_heads);
  }
  return text;
}

std::string cell_name(const AttentionCell& cell) {
  return fmt::format("attention {} on {} rank{}", shape_text(cell), cell.ranks, cell.ranks == 1 ? "" : "s");
}

}  // namespace xstage::bench
