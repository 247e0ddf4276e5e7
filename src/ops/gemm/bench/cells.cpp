#include "ops/gemm/bench/cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "files/csv.hpp"
#include "ops/gemm/layout.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

using gemm::Operation;

namespace {

constexpr int head_dimension = 128;
constexpr int projections = 3;  // Q, K and V

const std::vector<GemmShape> tensor_parallel_shapes{{2048, 4096, 4096},  {4096, 4096, 8192},   {8192, 8192, 8192},
                                                    {8192, 8192, 28672}, {16384, 5120, 13824}, {32768, 5120, 13824}};
const std::vector<GemmShape> decode_shapes{{16, 8192, 8192}, {64, 8192, 8192}, {256, 8192, 8192}, {1024, 8192, 8192}};
/// QKV projections of diffusion transformers: hidden size 3072 with 24 heads, 5120 with 40.
const std::vector<GemmShape> head_shapes{
    {4096, 9216, 3072}, {4096, 15360, 5120}, {16384, 9216, 3072}, {16384, 15360, 5120}, {65536, 15360, 5120}};
const std::vector<GemmShape> square_shapes{
    {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192}};

struct NamedOperation {
  std::string_view name;
  Operation operation;
};
constexpr NamedOperation operations_by_name[] = {{"gemm", Operation::gemm},
                                                 {"reduce_scatter", Operation::reduce_scatter},
                                                 {"all_gather", Operation::all_gather},
                                                 {"all_reduce", Operation::all_reduce},
                                                 {"all_to_all", Operation::all_to_all}};

/// No list of operations or shapes on a command line is longer.
constexpr std::size_t most_parts = 1000;

Operation parse_operation(std::string_view text) {
  for (const NamedOperation& named : operations_by_name) {
    if (named.name == text) {
      return named.operation;
    }
  }
  throw InputError(
      fmt::format("operation '{}': one of gemm, reduce_scatter, all_gather, all_reduce, all_to_all", text));
}

GemmShape parse_shape(std::string_view text) {
  const std::vector<std::string_view> parts = files::split(text, 'x', most_parts);
  std::int64_t extents[3] = {0, 0, 0};
  bool understood = parts.size() == 3;
  for (std::size_t index = 0; understood && index < 3; ++index) {
    const char* end = parts[index].data() + parts[index].size();
    const auto [stopped, error] = std::from_chars(parts[index].data(), end, extents[index]);
    understood = error == std::errc() && stopped == end && extents[index] > 0;
  }
  if (!understood) {
    throw InputError(fmt::format(
        "shape '{}': table, small, decode or shapes MxNxK of whole numbers above zero (8192x8192x28672)", text));
  }
  return {extents[0], extents[1], extents[2]};
}

gemm::Problem make_problem(Operation operation, const GemmShape& shape) {
  gemm::Problem problem;
  problem.operation = operation;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  if (operation == Operation::all_to_all) {
    const std::int64_t columns = projections * head_dimension;
    if (shape.n % columns != 0) {
      throw InputError(fmt::format("all_to_all: n is {}: it must be a multiple of {} (Q, K and V of heads of {})",
                                   shape.n, columns, head_dimension));
    }
    problem.head_dim = head_dimension;
    problem.parts.assign(projections, {static_cast<int>(shape.n / columns), false, false});
  }
  return problem;
}

/// The products that each rank computes in the fused cells of the table.
std::vector<GemmShape> shapes_of_ranks(int ranks) {
  std::vector<GemmShape> shapes;
  for (const Operation operation : {Operation::reduce_scatter, Operation::all_gather}) {
    for (const GemmShape& shape : tensor_parallel_shapes) {
      if (shape.n % ranks == 0 && shape.k % ranks == 0) {
        shapes.push_back(shape_of_rank({make_problem(operation, shape), ranks}));
      }
    }
  }
  return shapes;
}

std::vector<GemmShape> table_of(Operation operation, int ranks) {
  switch (operation) {
    case Operation::gemm: {
      std::vector<GemmShape> shapes = square_shapes;
      const std::vector<GemmShape> more = shapes_of_ranks(ranks);
      shapes.insert(shapes.end(), more.begin(), more.end());
      return shapes;
    }
    case Operation::all_reduce:
      return decode_shapes;
    case Operation::all_to_all:
      return head_shapes;
    case Operation::reduce_scatter:
    case Operation::all_gather:
      break;
  }
  return tensor_parallel_shapes;
}

std::vector<GemmShape> decode_of(Operation operation, int ranks) {
  if (operation == Operation::all_reduce) {
    return decode_shapes;
  }
  std::vector<GemmShape> shapes;
  if (operation == Operation::gemm) {
    for (const GemmShape& shape : decode_shapes) {
      shapes.push_back({shape.m, shape.n, shape.k / ranks});
    }
  }
  return shapes;
}

std::vector<GemmShape> shapes_for(Operation operation, const ShapeChoice& choice, int ranks) {
  switch (choice.kind) {
    case ShapeChoice::Kind::listed:
      return choice.listed;
    case ShapeChoice::Kind::decode:
      return decode_of(operation, ranks);
    case ShapeChoice::Kind::table:
    case ShapeChoice::Kind::small:
      break;
  }
  std::vector<GemmShape> shapes = table_of(operation, ranks);
  if (choice.kind == ShapeChoice::Kind::small) {
    shapes.resize(2);
  }
  return shapes;
}

bool same_cell(const GemmCell& one, const GemmCell& other) {
  return one.problem.operation == other.problem.operation && one.problem.m == other.problem.m &&
         one.problem.n == other.problem.n && one.problem.k == other.problem.k && one.ranks == other.ranks;
}

}  // namespace

GemmShape shape_of_rank(const GemmCell& cell) {
  const gemm::Problem& problem = cell.problem;
  switch (problem.operation) {
    case Operation::reduce_scatter:
    case Operation::all_reduce:
      return {problem.m, problem.n, problem.k / cell.ranks};
    case Operation::all_gather:
      return {problem.m, problem.n / cell.ranks, problem.k};
    case Operation::all_to_all:
      return {gemm::row_range(problem.m, 0, cell.ranks).count, problem.n, problem.k};
    case Operation::gemm:
      break;
  }
  return {problem.m, problem.n, problem.k};
}

double operations_of_rank(const GemmCell& cell) {
  const GemmShape shape = shape_of_rank(cell);
  return 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
}

std::vector<Operation> parse_operations(std::string_view text) {
  std::vector<Operation> operations;
  for (const std::string_view name : files::split(text, ',', most_parts)) {
    const Operation operation = parse_operation(name);
    if (std::find(operations.begin(), operations.end(), operation) == operations.end()) {
      operations.push_back(operation);
    }
  }
  return operations;
}

ShapeChoice parse_shapes(std::string_view text) {
  if (text == "table") {
    return {ShapeChoice::Kind::table, {}};
  }
  if (text == "small") {
    return {ShapeChoice::Kind::small, {}};
  }
  if (text == "decode") {
    return {ShapeChoice::Kind::decode, {}};
  }
  ShapeChoice choice{ShapeChoice::Kind::listed, {}};
  for (const std::string_view shape : files::split(text, ',', most_parts)) {
    choice.listed.push_back(parse_shape(shape));
  }
  return choice;
}

std::vector<GemmCell> make_cells(const std::vector<Operation>& operations, const ShapeChoice& shapes, int ranks) {
  std::vector<GemmCell> cells;
  for (const Operation operation : operations) {
    if (operation != Operation::gemm && ranks < 2) {
      throw InputError(fmt::format("{} on {} GPU: it needs at least 2", gemm::operation_name(operation), ranks));
    }
    for (const GemmShape& shape : shapes_for(operation, shapes, ranks)) {
      const GemmCell cell{make_problem(operation, shape), operation == Operation::gemm ? 1 : ranks};
      gemm::check_problem(cell.problem, cell.ranks);
      const auto is_same = [&](const GemmCell& other) { return same_cell(cell, other); };
      if (std::none_of(cells.begin(), cells.end(), is_same)) {
        cells.push_back(cell);
      }
    }
  }
  if (cells.empty()) {
    throw InputError("none of these operations has decode shapes: gemm and all_reduce have");
  }
  return cells;
}

std::string heads_text(const gemm::Problem& problem) {
  return problem.parts.empty() ? "" : fmt::format("{}x{}", problem.parts.size(), problem.parts.front().heads);
}

std::string cell_name(const GemmCell& cell) {
  return fmt::format("{} {}x{}x{} on {} rank{}", gemm::operation_name(cell.problem.operation), cell.problem.m,
                     cell.problem.n, cell.problem.k, cell.ranks, cell.ranks == 1 ? "" : "s");
}

}  // namespace xstage::bench
