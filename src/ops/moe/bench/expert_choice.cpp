#include "ops/moe/bench/expert_choice.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>

#include "ops/moe/bench/random_stream.hpp"

namespace xstage::moe {

namespace {

enum Streams : std::uint64_t { decks = 100, draws = 200, order = 300, hot = 400 };

std::size_t index_of(int value) { return static_cast<std::size_t>(value); }

bool is_on(Side side, int place, int source) { return side == Side::any || (side == Side::own) == (place == source); }

/// Cards, one for each expert, dealt in random order and then again, so that no expert is ever two ahead of another.
class Deck {
 public:
  Deck(int first, int count, std::uint64_t seed, std::uint64_t number) : random_(seed, number), all_(index_of(count)) {
    std::iota(all_.begin(), all_.end(), first);
  }

  /// Deals the next card that the token does not hold. A card that it holds stays for the next token.
  void deal(std::vector<std::int32_t>& held) {
    const auto is_new = [&](std::int32_t card) { return std::find(held.begin(), held.end(), card) == held.end(); };
    auto next = std::find_if(cards_.rbegin(), cards_.rend(), is_new);
    if (next == cards_.rend()) {
      std::vector<std::int32_t> shuffled = all_;
      random_.shuffle(shuffled);
      cards_.insert(cards_.begin(), shuffled.begin(), shuffled.end());
      next = std::find_if(cards_.rbegin(), cards_.rend(), is_new);
    }
    held.push_back(*next);
    cards_.erase(std::next(next).base());
  }

 private:
  RandomStream random_;
  std::vector<std::int32_t> all_;
  std::vector<std::int32_t> cards_;  // the next one is the last
};

class BalancedChooser : public ExpertChooser {
 public:
  explicit BalancedChooser(const RoutingRequest& request)
      : world_(request.world), all_(0, request.world * request.experts_per_rank, request.seed, decks) {
    for (int rank = 0; rank < world_; ++rank) {
      of_rank_.emplace_back(rank * request.experts_per_rank, request.experts_per_rank, request.seed,
                            decks + 1 + static_cast<std::uint64_t>(rank));
      next_peer_.push_back((rank + 1) % world_);
    }
  }

  void choose(int source, Side side, int count, std::vector<std::int32_t>& chosen) override {
    for (int step = 0; step < count; ++step) {
      switch (side) {
        case Side::any:
          all_.deal(chosen);
          break;
        case Side::own:
          of_rank_[index_of(source)].deal(chosen);
          break;
        case Side::other:
          of_rank_[index_of(peer_of(source))].deal(chosen);
          break;
      }
    }
  }

 private:
  /// The other ranks in turn.
  int peer_of(int source) {
    int& next = next_peer_[index_of(source)];
    const int peer = next;
    next = (next + 1) % world_;
    if (next == source) {
      next = (next + 1) % world_;
    }
    return peer;
  }

  int world_;
  Deck all_;
  std::vector<Deck> of_rank_;
  std::vector<int> next_peer_;
};

/// Systematic sampling. Experts are intervals on a line, as long as the probability with which each is chosen, and a
/// comb with teeth at distance 1 is laid on it. No interval is longer than 1, so that no expert is chosen twice, and
/// each expert has exactly its probability, which drawing one after the other without replacement would not give.
class Comb {
 public:
  /// `experts` from the hottest on.
  Comb(const std::vector<std::int32_t>& experts, const std::vector<std::uint64_t>& popularities, int count)
      : budget_(static_cast<std::uint64_t>(count) * one), count_(count) {
    std::uint64_t sum = 0;
    for (const std::int32_t expert : experts) {
      sum += popularities[index_of(expert)];
    }
    for (const std::int32_t expert : experts) {
      // Experts that a token would choose more than once are chosen once, and the others share the rest.
      const std::uint64_t popularity = popularities[index_of(expert)];
      const bool always = budget_ > 0 && popularity * budget_ >= sum * one;
      if (always) {
        budget_ -= one;
        sum -= popularity;
      }
      items_.push_back({expert, popularity, always});
    }
    sum_ = sum;
  }

  void choose(RandomStream& random, std::vector<std::int32_t>& chosen) {
    if (uses_ % uses_of_an_order == 0) {
      rearrange(random);
    }
    ++uses_;
    std::uint64_t tooth = random.below(one);
    for (int step = 0; step < count_; ++step, tooth += one) {
      const auto end = std::upper_bound(ends_.begin(), ends_.end(), tooth);
      chosen.push_back(items_[static_cast<std::size_t>(end - ends_.begin())].expert);
    }
  }

 private:
  // Length 1; times a sum of popularities of 2^35 it fits 64 bits.
  static constexpr std::uint64_t one = std::uint64_t{1} << 20U;
  // Draws with one order; which experts are chosen together depends on the order.
  static constexpr int uses_of_an_order = 16;

  struct Item {
    std::int32_t expert;
    std::uint64_t popularity;
    bool always;
  };

  void rearrange(RandomStream& random) {
    random.shuffle(items_);
    ends_.clear();
    std::uint64_t whole = 0;
    std::uint64_t before = 0;
    for (const Item& item : items_) {
      whole += item.always ? one : 0;
      before += item.always ? 0 : item.popularity;
      ends_.push_back(whole + (sum_ == 0 ? 0 : before * budget_ / sum_));
    }
  }

  std::uint64_t budget_;
  std::uint64_t sum_ = 0;
  int count_;
  int uses_ = 0;
  std::vector<Item> items_;
  std::vector<std::uint64_t> ends_;
};

class ZipfChooser : public ExpertChooser {
 public:
  explicit ZipfChooser(const RoutingRequest& request)
      : request_(request), order_(popularity_order(request)), random_(request.seed, draws) {
    const std::vector<std::uint64_t> falling = zipf_popularities(static_cast<int>(order_.size()), request.top_k);
    popularities_.resize(order_.size());
    for (std::size_t place = 0; place < order_.size(); ++place) {
      popularities_[index_of(order_[place])] = falling[place];
    }
  }

  void choose(int source, Side side, int count, std::vector<std::int32_t>& chosen) override {
    comb(source, side, count).choose(random_, chosen);
  }

 private:
  Comb& comb(int source, Side side, int count) {
    const auto key = std::make_tuple(side == Side::any ? 0 : source, side, count);
    auto found = combs_.find(key);
    if (found == combs_.end()) {
      std::vector<std::int32_t> experts;
      std::copy_if(order_.begin(), order_.end(), std::back_inserter(experts),
                   [&](std::int32_t expert) { return is_on(side, expert / request_.experts_per_rank, source); });
      found = combs_.emplace(key, Comb(experts, popularities_, count)).first;
    }
    return found->second;
  }

  RoutingRequest request_;
  std::vector<std::int32_t> order_;
  std::vector<std::uint64_t> popularities_;  // by expert
  RandomStream random_;
  std::map<std::tuple<int, Side, int>, Comb> combs_;
};

class OneExpertChooser : public ExpertChooser {
 public:
  explicit OneExpertChooser(const RoutingRequest& request) : experts_per_rank_(request.experts_per_rank) {
    RandomStream random(request.seed, hot);
    const int first_rank = static_cast<int>(random.below(static_cast<std::uint64_t>(request.world)));
    const int first = static_cast<int>(random.below(static_cast<std::uint64_t>(experts_per_rank_)));
    for (int rank = 0; rank < request.world; ++rank) {
      for (int expert = 0; expert < experts_per_rank_; ++expert) {
        order_.push_back((first_rank + rank) % request.world * experts_per_rank_ +
                         (first + expert) % experts_per_rank_);
      }
    }
  }

  void choose(int source, Side side, int count, std::vector<std::int32_t>& chosen) override {
    for (auto expert = order_.begin(); count > 0; ++expert) {
      if (is_on(side, *expert / experts_per_rank_, source)) {
        chosen.push_back(*expert);
        --count;
      }
    }
  }

 private:
  int experts_per_rank_;
  std::vector<std::int32_t> order_;
};

/// The powers 1, 2^-s, 3^-s and so on, times 2^24, for s in steps of 1/256. They are computed by roots and products,
/// which all libraries round correctly, while pow differs from library to library.
std::vector<std::uint64_t> powers(int experts, int steps) {
  std::vector<std::uint64_t> values;
  for (int number = 1; number <= experts; ++number) {
    double root = number;
    for (int halving = 0; halving < 8; ++halving) {
      root = std::sqrt(root);
    }
    double power = 1;
    for (int left = steps; left > 0; left /= 2) {
      power = left % 2 == 1 ? power * root : power;
      root *= root;
    }
    values.push_back(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ldexp(1 / power, 24))));
  }
  return values;
}

}  // namespace

std::vector<std::uint64_t> zipf_popularities(int experts, int top_k) {
  constexpr std::uint64_t factor = 4;
  const auto fits = [&](const std::vector<std::uint64_t>& values) {
    const std::uint64_t sum = std::accumulate(values.begin(), values.end(), std::uint64_t{0});
    return values.front() * static_cast<std::uint64_t>(experts) <= factor * sum &&
           values.front() * static_cast<std::uint64_t>(top_k) <= sum;
  };
  int steps = 0;  // 0: all experts equally popular, which is always possible
  for (int step = 1024; step > 0; step /= 2) {
    if (fits(powers(experts, steps + step))) {
      steps += step;
    }
  }
  return powers(experts, steps);
}

std::vector<std::int32_t> popularity_order(const RoutingRequest& request) {
  RandomStream random(request.seed, order);
  std::vector<std::vector<std::int32_t>> of_rank(index_of(request.world));
  for (int rank = 0; rank < request.world; ++rank) {
    of_rank[index_of(rank)].resize(index_of(request.experts_per_rank));
    std::iota(of_rank[index_of(rank)].begin(), of_rank[index_of(rank)].end(), rank * request.experts_per_rank);
    random.shuffle(of_rank[index_of(rank)]);
  }
  std::vector<int> ranks(index_of(request.world));
  std::iota(ranks.begin(), ranks.end(), 0);
  random.shuffle(ranks);
  std::vector<std::int32_t> experts;
  for (std::size_t round = 0; round < index_of(request.experts_per_rank); ++round) {
    for (const int rank : ranks) {
      experts.push_back(of_rank[index_of(rank)][round]);
    }
    std::reverse(ranks.begin(), ranks.end());
  }
  return experts;
}

std::unique_ptr<ExpertChooser> make_expert_chooser(const RoutingRequest& request) {
  switch (request.skew) {
    case Skew::zipf:
      return std::make_unique<ZipfChooser>(request);
    case Skew::one_expert:
      return std::make_unique<OneExpertChooser>(request);
    case Skew::balanced:
      break;
  }
  return std::make_unique<BalancedChooser>(request);
}

}  // namespace xstage::moe
