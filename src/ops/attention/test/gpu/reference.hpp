#pragma once
// Attention in double, and beside it the result of a framework that computes in the element type.
//
// Tolerance (design rule 7): the error against the double reference is at most twice that of a framework's result. That
// one is emulated here element by element: scores in fp32, probabilities exp(score - greatest score) rounded to the
// element type before they multiply the values, sums better than fp32, their quotient rounded to the element type. Two
// numbers are compared, the largest error and the root mean square error: the first finds single wrong elements, the
// second small errors that all elements have. Errors of rows that see few keys are much larger than those of rows that
// see many, so they are compared separately, by powers of four of the number of keys.
//
// Besides 2 x the framework's error there is a floor of 2^-20 x (1 + greatest |score|) x root mean square of the
// results: a score is a sum in fp32 whose last places are lost, and the exponential turns that absolute error into a
// relative one of the probability. For scores of ordinary size this is 1% of the rounding to fp16.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "xstage/attention.hpp"

namespace xstage::attention_test {

struct Case;
class Call;

[[nodiscard]] std::uint16_t to_bits(float value, attention::Element element);  // rounds to nearest even; not for NaN
[[nodiscard]] float from_bits(std::uint16_t bits, attention::Element element);

/// One row of one head.
struct ReferenceRow {
  std::vector<double> exact;
  std::vector<double> framework;
  double log_sum_exp = 0;
  double greatest_score = 0;  // magnitude
};

/// Keys and values of one head.
class KeyHead {
 public:
  /// `pitch`: elements from one row to the next.
  KeyHead(const float* key, const float* value, std::int64_t rows, std::int64_t pitch, int head_dim);

  /// Attention of one query to the first `seen` keys; scale 0: 1 / sqrt(head_dim).
  [[nodiscard]] ReferenceRow attend(const float* query, std::int64_t seen, float scale,
                                    attention::Element element) const;

 private:
  std::int64_t rows_;
  std::int64_t head_dim_;
  std::vector<double> key_;    // [head_dim, rows]
  std::vector<double> value_;  // [rows, head_dim]
};

/// Where a row of a result belongs.
struct RowPlace {
  int rank = 0;  // who computes it
  std::int64_t sequence = 0;
  int head = 0;  // of the rank's
  std::int64_t row = 0;
};

/// Adds up errors of results and of the framework.
class ErrorComparison {
 public:
  /// A row of a result that sees `seen` keys.
  void add(std::int64_t seen, const ReferenceRow& row, const std::vector<double>& result, const RowPlace& place);
  void add_log_sum_exp(const ReferenceRow& row, double result, const RowPlace& place);
  void merge(const ErrorComparison& other);
  /// Empty: all errors are allowed.
  [[nodiscard]] std::string complaint() const;

 private:
  struct Errors {
    double largest = 0;
    double squares = 0;
    void add(double error);
    void merge(const Errors& other);
  };
  struct Worst {  // where the largest error is
    RowPlace place;
    std::size_t column = 0;
    double result = 0;
    double exact = 0;
  };
  struct Group {
    Errors result;
    Errors framework;
    double squares = 0;  // of exact results
    double greatest_score = 0;
    std::int64_t count = 0;
    Worst worst;
    [[nodiscard]] std::string complaint(std::size_t power) const;
  };
  std::array<Group, 16> groups_;  // by the number of keys: 4^index and more
  std::string wrong_log_sum_exp_;
};

/// Compares a call's results with the reference: every element that belongs to the result is a number, errors are
/// within the tolerance, log_sum_exp is right, what is not the result is untouched. All rows of problems of up to two
/// million query-key pairs, a sample of larger ones. Empty: all is well.
[[nodiscard]] std::string complaint_about(const Case& which, const Call& call);

}  // namespace xstage::attention_test
