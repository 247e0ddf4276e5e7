#pragma once
/// A JSON document that is printed while it is made, so that its rows need no memory. It reads as print_json's.

#include <ostream>
#include <string_view>

#include "cli/json_output.hpp"

namespace xstage::cli {

/// An object whose members are values or arrays of values. Members come in the order of the calls.
class JsonStream {
 public:
  explicit JsonStream(std::ostream& out);

  void member(std::string_view name, const Json& value);

  void begin_array(std::string_view name);
  void element(const Json& value);
  void end_array();

  void finish();

 private:
  void begin_member(std::string_view name);
  void print(const Json& value, std::string_view indent);

  std::ostream& out_;
  bool first_member_ = true;
  bool first_element_ = true;
};

}  // namespace xstage::cli
