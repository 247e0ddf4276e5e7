// The table of each plan's fields: it has every member, and whatever reads it sees every field.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/fields.hpp"
#include "ops/all_to_all/problem.hpp"
#include "ops/attention/problem.hpp"
#include "ops/gemm/layout.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::plan_fields_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

template <typename Plan>
fields::Table<Plan> table_of();
template <>
fields::Table<Plan> table_of() {
  return gemm::plan_fields();
}
template <>
fields::Table<attention::Plan> table_of() {
  return attention::plan_fields();
}
template <>
fields::Table<all_to_all::Plan> table_of() {
  return all_to_all::plan_fields();
}
template <>
fields::Table<moe::Plan> table_of() {
  return moe::plan_fields();
}

std::string statement_of(const Plan& plan) { return gemm::statement({}, plan); }
std::string statement_of(const attention::Plan& plan) { return attention::statement({}, plan); }
std::string statement_of(const all_to_all::Plan& plan) { return all_to_all::statement({}, plan); }
std::string statement_of(const moe::Plan& plan) { return moe::statement({}, plan); }

/// Another value than the one there is; false where an enum has one value only.
template <typename Values>
bool change(const fields::Field<Values>& field, Values& values) {
  if (const auto* whole = std::get_if<fields::WholeNumber<Values>>(&field.place)) {
    ++(values.*whole->member);
    return true;
  }
  if (const auto* real = std::get_if<fields::RealNumber<Values>>(&field.place)) {
    values.*real->member = std::nextafter(values.*real->member, std::numeric_limits<double>::infinity());
    return true;
  }
  const auto& choice = std::get<fields::Choice<Values>>(field.place);
  choice.set(values, choice.get(values) == 0 ? 1 : 0);
  return choice.range.names.size() > 1;
}

template <typename Plan>
class PlanFields : public testing::Test {};

struct OperationNames {
  template <typename Plan>
  static std::string GetName(int /*index*/) {  // NOLINT(readability-identifier-naming): GoogleTest's
    return std::is_same_v<Plan, xstage::Plan>       ? "Gemm"
           : std::is_same_v<Plan, attention::Plan>  ? "Attention"
           : std::is_same_v<Plan, all_to_all::Plan> ? "AllToAll"
                                                    : "Moe";
  }
};

using Plans = testing::Types<Plan, attention::Plan, all_to_all::Plan, moe::Plan>;
TYPED_TEST_SUITE(PlanFields, Plans, OperationNames);

/// As many fields as members, each of another member: none is forgotten.
TYPED_TEST(PlanFields, EveryMemberHasAFieldOfItsOwn) {
  const auto table = table_of<TypeParam>();
  EXPECT_EQ(table.size(), fields::count_members<TypeParam>());
  std::set<std::string_view> names;
  for (const auto& field : table) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_FALSE(field.help.empty()) << field.name;
    TypeParam plan;
    change(field, plan);
    for (const auto& other : table) {
      const bool same = fields::value_of(other, plan) == fields::value_of(other, TypeParam{});
      EXPECT_EQ(same, &other != &field) << field.name << " changes " << other.name;
    }
    TypeParam copied;
    fields::copy(field, plan, copied);
    EXPECT_EQ(fields::statement(table, copied), fields::statement(table, plan)) << field.name;
  }
}

/// Ranks with different plans would corrupt each other's results, or measure something else.
TYPED_TEST(PlanFields, RanksAgreeOnAllOfThem) {
  for (const auto& field : table_of<TypeParam>()) {
    TypeParam plan;
    if (change(field, plan)) {
      EXPECT_NE(statement_of(plan), statement_of(TypeParam{})) << field.name;
      EXPECT_THAT(statement_of(plan), HasSubstr(" " + std::string(field.name) + "=")) << field.name;
    }
  }
}

TYPED_TEST(PlanFields, WhatThePlanBeginsWithIsInRange) {
  EXPECT_NO_THROW(fields::check(table_of<TypeParam>(), TypeParam{}, "plan"));
  TypeParam plan;
  fields::leave_to_rules(table_of<TypeParam>(), plan);
  EXPECT_NO_THROW(fields::check(table_of<TypeParam>(), plan, "plan"));
}

/// What a field says of itself can be read again, as on a command line and from Python.
TYPED_TEST(PlanFields, ValuesComeBackFromTheirText) {
  for (const auto& field : table_of<TypeParam>()) {
    TypeParam read;
    const fields::Value value = fields::value_of(field, TypeParam{});
    EXPECT_EQ(fields::read(field, fields::text_of(value), read), "") << field.name;
    EXPECT_EQ(fields::value_of(field, read), value) << field.name;
    TypeParam assigned;
    change(field, assigned);
    fields::assign(field, assigned, value);
    EXPECT_EQ(fields::value_of(field, assigned), value) << field.name;
    EXPECT_THAT([&] { fields::assign(field, assigned, std::string_view("nonsense")); },
                ThrowsMessage<InputError>(HasSubstr(std::string(field.name) + " is 'nonsense': it must be ")));
  }
}

TYPED_TEST(PlanFields, WhatIsOutOfRangeIsNamedWithTheRule) {
  for (const auto& field : table_of<TypeParam>()) {
    TypeParam plan;
    if (const auto* whole = std::get_if<fields::WholeNumber<TypeParam>>(&field.place)) {
      plan.*whole->member = std::numeric_limits<int>::min();
    } else if (const auto* real = std::get_if<fields::RealNumber<TypeParam>>(&field.place)) {
      plan.*real->member = std::numeric_limits<double>::quiet_NaN();
    } else {
      std::get<fields::Choice<TypeParam>>(field.place).set(plan, 9);
    }
    EXPECT_THAT([&] { fields::check(table_of<TypeParam>(), plan, "plan"); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("plan: " + std::string(field.name) + " is "),
                                                HasSubstr(": it must be " + fields::description(field)))));
  }
}

struct Sample {
  int whole = 4;
  double real = 1;
};

TEST(Fields, RangesAreSaidInWords) {
  EXPECT_EQ(fields::description(fields::between(2, 20)), "between 2 and 20");
  EXPECT_EQ(fields::description(fields::between(2, 20).or_by_rule(0)), "between 2 and 20, or 0 for the rule");
  EXPECT_EQ(fields::description(fields::at_least(3)), "at least 3");
  EXPECT_EQ(fields::description(fields::multiples_of(128)), "a multiple of 128");
  EXPECT_EQ(fields::description(fields::one_of({1})), "1");
  EXPECT_EQ(fields::description(fields::one_of({0, 1, 2, 4})), "0, 1, 2 or 4");
  EXPECT_EQ(fields::description(fields::RealNumbers{0.5}), "a finite number of at least 0.5");
}

TEST(Fields, RangesEndWhereTheySay) {
  const auto between = fields::between(2, 20).or_by_rule(-1);
  for (const int inside : {-1, 2, 20}) {
    EXPECT_TRUE(fields::accepts(between, inside)) << inside;
  }
  for (const int outside : {-2, 0, 1, 21}) {
    EXPECT_FALSE(fields::accepts(between, outside)) << outside;
  }
  EXPECT_FALSE(fields::accepts(fields::multiples_of(64), 0));
  EXPECT_FALSE(fields::accepts(fields::multiples_of(64), -64));
  EXPECT_FALSE(fields::accepts(fields::multiples_of(64), 96));
  EXPECT_TRUE(fields::accepts(fields::multiples_of(64), 128));
  EXPECT_FALSE(fields::accepts(fields::one_of({1, 2}), 0));  // what is behind the list counts for nothing
  EXPECT_FALSE(fields::accepts(fields::RealNumbers{}, std::numeric_limits<double>::infinity()));
}

TEST(Fields, NumbersOfAnotherKindAreRefusedOrConverted) {
  const auto whole = fields::field("whole", &Sample::whole, fields::at_least(0), "a whole number");
  const auto real = fields::field("real", &Sample::real, fields::RealNumbers{}, "a number");
  Sample sample;
  EXPECT_THAT([&] { fields::assign(whole, sample, 1.5); },
              ThrowsMessage<InputError>(HasSubstr("whole is 1.5: it must be a whole number")));
  EXPECT_EQ(sample.whole, 4);
  fields::assign(real, sample, 3);
  EXPECT_EQ(sample.real, 3.0);
  EXPECT_EQ(fields::count_members<Sample>(), 2U);
}

}  // namespace
}  // namespace xstage::plan_fields_test
