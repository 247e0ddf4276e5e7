#include "node/words.hpp"

namespace xstage {

std::string_view words_of(StorePath path) {
  switch (path) {
    case StorePath::store4:
      return "4-byte stores";
    case StorePath::store8:
      return "8-byte stores";
    case StorePath::store16:
      return "16-byte stores";
    case StorePath::bulk:
      break;
  }
  return "bulk copies";
}

std::string_view words_of(Regime regime) { return regime == Regime::aligned ? "aligned" : "free-running"; }

}  // namespace xstage
