#include "ops/moe/bench/shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "xstage/error.hpp"

namespace xstage::moe {

namespace {

constexpr Shape table[] = {
    {"Qwen3-30B-A3B", 2048, 768, 16, 8},       //
    {"Qwen3.5", 4096, 1024, 64, 10},           //
    {"Qwen3-235B", 4096, 1536, 16, 8},         //
    {"DeepSeek-V4-Flash", 4096, 2048, 32, 6},  //
    {"GLM-5", 6144, 2048, 32, 8},              //
    {"DeepSeek-V3", 7168, 2048, 32, 8},        //
    {"DeepSeek-V4-Pro", 7168, 3072, 48, 6},
};

char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

bool same_name(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](char left, char right) { return lower(left) == lower(right); });
}

}  // namespace

std::span<const Shape> shapes() { return table; }

const Shape& find_shape(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(table), std::end(table), [&](const Shape& shape) { return same_name(shape.name, name); });
  if (found == std::end(table)) {
    std::string names;
    for (const Shape& shape : table) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
    }
    throw InputError(fmt::format("shape '{}': one of {}", name, names));
  }
  return *found;
}

Problem problem_of(const Shape& shape, std::int64_t most_tokens) {
  Problem problem;
  problem.hidden = shape.hidden;
  problem.intermediate = shape.intermediate;
  problem.experts_per_rank = shape.experts_per_rank;
  problem.top_k = shape.top_k;
  problem.most_tokens = most_tokens;
  return problem;
}

}  // namespace xstage::moe
