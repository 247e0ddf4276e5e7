#pragma once
// A plan in Python: a keyword and an attribute for each field of its table, enumerators by their words.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>

#include "base/fields.hpp"

namespace xstage::binding {

/// The value of a field as Python has it.
[[nodiscard]] inline nanobind::object to_python(const fields::Value& value) {
  if (const auto* word = std::get_if<std::string_view>(&value)) {
    return nanobind::str(word->data(), word->size());
  }
  return std::holds_alternative<int>(value) ? nanobind::object(nanobind::int_(std::get<int>(value)))
                                            : nanobind::object(nanobind::float_(std::get<double>(value)));
}

/// A word lives as long as the Python object. TypeError for what is neither a number nor a text.
[[nodiscard]] inline fields::Value from_python(std::string_view field, nanobind::handle value) {
  int whole = 0;
  double real = 0;
  if (nanobind::isinstance<nanobind::str>(value)) {
    return std::string_view(nanobind::borrow<nanobind::str>(value).c_str());
  }
  if (nanobind::try_cast(value, whole)) {
    return whole;
  }
  if (nanobind::try_cast(value, real)) {
    return real;
  }
  const std::string of_type = nanobind::type_name(value.type()).c_str();
  throw nanobind::type_error(fmt::format("{} is of type {}: it must be a number or a word", field, of_type).c_str());
}

/// `Plan(**fields)` and an attribute for each field. Ranges are checked when an operation is made.
template <typename Plan>
void bind_plan_fields(nanobind::class_<Plan>& plan_class, fields::Table<Plan> table) {
  plan_class.def(
      "__init__",
      [table](Plan* self, const nanobind::kwargs& values) {
        Plan plan;
        for (const auto& [key, value] : values) {
          const std::string name = nanobind::cast<std::string>(key);
          const fields::Field<Plan>* field = fields::find(table, name);
          if (field == nullptr) {
            throw nanobind::type_error(
                fmt::format("a plan has no field '{}'; the fields are {}", name, fields::names(table)).c_str());
          }
          fields::assign(*field, plan, from_python(name, value));
        }
        new (self) Plan{plan};
      },
      "Fields that are not named are left to the rule, or stay as the struct has them.");
  for (const fields::Field<Plan>& field : table) {
    const std::string description = fmt::format("{}: {}", field.help, fields::description(field));
    plan_class.def_prop_rw(
        std::string(field.name).c_str(),
        [&field](const Plan& plan) { return to_python(fields::value_of(field, plan)); },
        [&field](Plan& plan, nanobind::handle value) { fields::assign(field, plan, from_python(field.name, value)); },
        description.c_str());
  }
  plan_class.def("__repr__",
                 [table](const Plan& plan) { return fmt::format("<plan{}>", fields::statement(table, plan)); });
}

}  // namespace xstage::binding
