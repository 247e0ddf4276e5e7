#pragma once
/// `xstage bench` in process, and what the tests of all its verbs ask of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/run.hpp"

namespace xstage::cli {

struct Answer {
  int code;
  std::string out;
  std::string err;
};

inline Answer run_bench(std::vector<const char*> words) {
  words.insert(words.begin(), {"xstage", "bench"});
  std::ostringstream out;
  std::ostringstream err;
  const int code = run(static_cast<int>(words.size()), words.data(), out, err, false);
  return {code, out.str(), err.str()};
}

/// A verb of `xstage bench`; called, it runs with these words.
struct BenchVerb {
  const char* name;

  Answer operator()(std::vector<const char*> words) const {
    words.insert(words.begin(), name);
    return run_bench(std::move(words));
  }

  /// A mistake of usage, whose message contains `message`.
  void expect_mistake(const std::vector<const char*>& words, const char* message) const {
    const Answer answer = (*this)(words);
    EXPECT_EQ(answer.code, 2) << message;
    EXPECT_EQ(answer.out, "") << message;
    EXPECT_THAT(answer.err, testing::HasSubstr(message));
  }

  void expect_checked_trials() const {
    expect_mistake({"--trials", "0"}, "--trials 0: from 1 to 10000");
    expect_mistake({"--trials", "10001"}, "--trials 10001: from 1 to 10000");
  }

  /// The help has the options that all have, and these words.
  void expect_help(const std::vector<const char*>& words) const {
    const Answer help = (*this)({"--help"});
    EXPECT_EQ(help.code, 0);
    for (const char* word : {"--devices", "--trials", "--sustained", "--list", "--output", "--verify", "--json"}) {
      EXPECT_THAT(help.out, testing::HasSubstr(word));
    }
    for (const char* word : words) {
      EXPECT_THAT(help.out, testing::HasSubstr(word));
    }
  }
};

}  // namespace xstage::cli
