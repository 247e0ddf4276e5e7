#include "ops/moe/bench/cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <span>
#include <utility>

#include "files/csv.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

/// No list on a command line is longer.
constexpr std::size_t most_parts = 1000;
constexpr std::int64_t most_tokens_of_a_rank = 1'000'000;
constexpr std::int64_t greatest_denominator = 1'000'000;

constexpr std::array<std::pair<std::string_view, moe::Skew>, 3> routings{{
    {"balanced", moe::Skew::balanced},
    {"skewed", moe::Skew::zipf},
    {"one_expert", moe::Skew::one_expert},
}};

constexpr std::array<std::pair<std::string_view, std::span<const std::int64_t>>, 3> token_words{{
    {"matrix", moe::matrix_tokens},
    {"decode", moe::decode_tokens},
    {"published", moe::published_tokens},
}};

bool same(const moe::Shape& one, const moe::Shape& other) { return one.name == other.name; }
bool same(const moe::Share& one, const moe::Share& other) { return one.part == other.part && one.of == other.of; }
template <typename Value>
bool same(const Value& one, const Value& other) {
  return one == other;
}

template <typename Value>
void add_once(std::vector<Value>& values, const Value& value) {
  if (std::none_of(values.begin(), values.end(), [&](const Value& had) { return same(had, value); })) {
    values.push_back(value);
  }
}

bool read_number(std::string_view text, std::int64_t& number) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end;
}

moe::Share lowest_terms(std::int64_t part, std::int64_t of) {
  const std::int64_t divisor = std::gcd(part, of);
  return {part / divisor, of / divisor};
}

moe::Share parse_share(std::string_view text) {
  if (text == "natural") {
    return {0, 0};
  }
  const std::vector<std::string_view> numbers = files::split(text, '/', most_parts);
  moe::Share share;
  const bool read = numbers.size() == 2 && read_number(numbers[0], share.part) && read_number(numbers[1], share.of);
  if (!read || share.part < 0 || share.of < 1 || share.of > greatest_denominator || share.part > share.of) {
    throw InputError(fmt::format("remote share '{}': natural, or a fraction from 0/1 to 1/1 (7/8)", text));
  }
  return lowest_terms(share.part, share.of);
}

bool is_natural(const moe::Share& share) { return share.of == 0; }

void check_cell(const MoeCell& cell) {
  const moe::Problem problem = problem_of(cell);
  moe::check_problem(problem, cell.ranks);
  if (cell.ranks == 1 && cell.remote_share.part > 0) {
    throw InputError(fmt::format("remote share {} on 1 rank: it has no others", share_text(cell.remote_share)));
  }
  // Checks the rules of a share with few tokens, which saves the work for many.
  moe::RoutingRequest request = routing_request(cell);
  std::fill(request.tokens.begin(), request.tokens.end(), 0);
  static_cast<void>(moe::make_routing(request));
}

}  // namespace

std::vector<moe::Shape> parse_moe_shapes(std::string_view text) {
  if (text == "all") {
    return {moe::shapes().begin(), moe::shapes().end()};
  }
  std::vector<moe::Shape> shapes;
  for (const std::string_view name : files::split(text, ',', most_parts)) {
    add_once(shapes, moe::find_shape(name));
  }
  return shapes;
}

std::vector<std::int64_t> parse_moe_tokens(std::string_view text) {
  std::vector<std::int64_t> tokens;
  for (const std::string_view part : files::split(text, ',', most_parts)) {
    const auto* const word =
        std::find_if(token_words.begin(), token_words.end(), [&](const auto& entry) { return entry.first == part; });
    if (word != token_words.end()) {
      std::for_each(word->second.begin(), word->second.end(), [&](std::int64_t number) { add_once(tokens, number); });
      continue;
    }
    std::int64_t number = 0;
    if (!read_number(part, number) || number < 1 || number > most_tokens_of_a_rank) {
      throw InputError(
          fmt::format("tokens '{}': numbers from 1 to {}, or matrix, decode, published", part, most_tokens_of_a_rank));
    }
    add_once(tokens, number);
  }
  return tokens;
}

std::vector<moe::Skew> parse_moe_routings(std::string_view text) {
  std::vector<moe::Skew> skews;
  for (const std::string_view name : files::split(text, ',', most_parts)) {
    const auto* const found =
        std::find_if(routings.begin(), routings.end(), [&](const auto& entry) { return entry.first == name; });
    if (found == routings.end()) {
      throw InputError(fmt::format("routing '{}': one of balanced, skewed, one_expert", name));
    }
    add_once(skews, found->second);
  }
  return skews;
}

std::vector<moe::Share> parse_remote_shares(std::string_view text) {
  std::vector<moe::Share> shares;
  for (const std::string_view part : files::split(text, ',', most_parts)) {
    add_once(shares, parse_share(part));
  }
  return shares;
}

moe::Share natural_share(int ranks) { return {ranks - 1, ranks}; }

std::vector<MoeCell> make_moe_cells(const MoeChoice& choice, int ranks) {
  std::vector<moe::Share> shares;
  for (const moe::Share& share : choice.remote_shares) {
    add_once(shares, is_natural(share) ? natural_share(ranks) : share);
  }
  std::vector<MoeCell> cells;
  for (const moe::Shape& shape : choice.shapes) {
    for (const std::int64_t tokens : choice.tokens) {
      for (const moe::Skew skew : choice.skews) {
        for (const moe::Share& share : shares) {
          cells.push_back({shape, tokens, skew, share, ranks});
          check_cell(cells.back());
        }
      }
    }
  }
  return cells;
}

moe::Problem problem_of(const MoeCell& cell) { return moe::problem_of(cell.shape, cell.tokens); }

moe::RoutingRequest routing_request(const MoeCell& cell) {
  moe::RoutingRequest request = moe::request_for(problem_of(cell), cell.ranks, cell.tokens);
  request.skew = cell.skew;
  if (!same(cell.remote_share, natural_share(cell.ranks))) {
    request.remote_share = cell.remote_share;
  }
  return request;
}

std::string_view routing_name(moe::Skew skew) {
  const auto* const found =
      std::find_if(routings.begin(), routings.end(), [&](const auto& entry) { return entry.second == skew; });
  return found->first;
}

std::string share_text(const moe::Share& share) { return fmt::format("{}/{}", share.part, share.of); }

std::string cell_name(const MoeCell& cell) {
  return fmt::format("moe {}, {} tokens, {}, remote share {}, on {} rank{}", cell.shape.name, cell.tokens,
                     routing_name(cell.skew), share_text(cell.remote_share), cell.ranks, cell.ranks == 1 ? "" : "s");
}

}  // namespace xstage::bench
