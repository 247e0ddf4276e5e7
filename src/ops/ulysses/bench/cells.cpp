#include "ops/ulysses/bench/cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "files/csv.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

/// Hidden sizes of diffusion transformers: 3072 with 24 heads, 5120 with 40.
constexpr UlyssesShape table[] = {{4096, 24}, {16384, 24}, {65536, 24}, {4096, 40}, {16384, 40}, {65536, 40}};

constexpr int parts_of_projection = 3;  // Q, K and V

/// No list on a command line is longer.
constexpr std::size_t most_parts = 1000;

template <typename Number>
bool read_positive(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end && number > 0;
}

UlyssesShape parse_shape(std::string_view text) {
  const std::vector<std::string_view> extents = files::split(text, 'x', most_parts);
  UlyssesShape shape;
  if (extents.size() != 2 || !read_positive(extents[0], shape.tokens) || !read_positive(extents[1], shape.heads)) {
    throw InputError(
        fmt::format("shape '{}': table or shapes TOKENSxHEADS of whole numbers above zero (16384x24)", text));
  }
  return shape;
}

std::vector<UlyssesShape> shapes_for(const UlyssesShapeChoice& choice, int ranks) {
  if (!choice.is_table) {
    return choice.shapes;
  }
  std::vector<UlyssesShape> shapes;
  std::copy_if(choice.shapes.begin(), choice.shapes.end(), std::back_inserter(shapes),
               [&](const UlyssesShape& shape) { return shape.heads % ranks == 0; });
  if (shapes.empty()) {
    throw InputError(fmt::format("table: it has no shape whose heads {} ranks can share", ranks));
  }
  return shapes;
}

UlyssesCell make_cell(const UlyssesShape& shape, int ranks) {
  const UlyssesCell cell{shape.tokens, shape.heads, ranks};
  gemm::check_problem(projection_of(cell).problem, ranks);
  attention::check_problem(attention_of(cell).problem, ranks);
  if (own_tokens(cell, ranks - 1) == 0) {
    throw InputError(
        fmt::format("{} tokens on {} ranks: the last rank has none, every rank must have some", shape.tokens, ranks));
  }
  return cell;
}

gemm::Problem product(std::int64_t m, std::int64_t n, std::int64_t k) {
  gemm::Problem problem;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

}  // namespace

UlyssesShapeChoice parse_ulysses_shapes(std::string_view text) {
  if (text == "table") {
    return {true, {std::begin(table), std::end(table)}};
  }
  UlyssesShapeChoice choice;
  for (const std::string_view shape : files::split(text, ',', most_parts)) {
    choice.shapes.push_back(parse_shape(shape));
  }
  return choice;
}

std::vector<UlyssesCell> make_ulysses_cells(const UlyssesShapeChoice& choice, int ranks) {
  std::vector<UlyssesCell> cells;
  for (const UlyssesShape& shape : shapes_for(choice, ranks)) {
    const auto is_same = [&](const UlyssesCell& cell) {
      return cell.tokens == shape.tokens && cell.heads == shape.heads;
    };
    if (std::none_of(cells.begin(), cells.end(), is_same)) {
      cells.push_back(make_cell(shape, ranks));
    }
  }
  return cells;
}

std::int64_t hidden_of(const UlyssesCell& cell) { return std::int64_t{cell.heads} * ulysses_head_dim; }

std::int64_t own_tokens(const UlyssesCell& cell, int rank) { return row_range(cell.tokens, rank, cell.ranks).count; }

GemmCell projection_of(const UlyssesCell& cell) {
  GemmCell projection;
  projection.problem = product(cell.tokens, parts_of_projection * hidden_of(cell), hidden_of(cell));
  projection.problem.operation = gemm::Operation::all_to_all;
  projection.problem.parts.assign(parts_of_projection, {.heads = cell.heads});
  projection.problem.head_dim = ulysses_head_dim;
  projection.ranks = cell.ranks;
  return projection;
}

gemm::Problem local_projection_of(const UlyssesCell& cell, int rank) {
  return product(own_tokens(cell, rank), parts_of_projection * hidden_of(cell), hidden_of(cell));
}

AttentionCell attention_of(const UlyssesCell& cell) {
  AttentionCell attention;
  attention.problem.rows = cell.tokens;
  attention.problem.keys = cell.tokens;
  attention.problem.heads = cell.heads;
  attention.problem.kv_heads = cell.heads;
  attention.problem.head_dim = ulysses_head_dim;
  attention.problem.destination = cell.ranks > 1 ? attention::Destination::to_owners : attention::Destination::local;
  attention.ranks = cell.ranks;
  return attention;
}

gemm::Problem output_projection_of(const UlyssesCell& cell, int rank) {
  return product(own_tokens(cell, rank), hidden_of(cell), hidden_of(cell));
}

std::string shape_text(const UlyssesCell& cell) { return fmt::format("{}x{}", cell.tokens, cell.heads); }

std::string cell_name(const UlyssesCell& cell) {
  return fmt::format("ulysses {} on {} rank{}", shape_text(cell), cell.ranks, cell.ranks == 1 ? "" : "s");
}

}  // namespace xstage::bench
