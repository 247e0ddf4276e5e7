#include "heap/release_board.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace xstage::memory {

void ReleaseBoard::add(Id buffer, std::string tag, std::size_t bytes) {
  entries_.try_emplace(buffer,
                       Entry{std::move(tag), bytes, std::vector<bool>(static_cast<std::size_t>(world_), false), {}});
}

void ReleaseBoard::release(int rank, Id buffer, std::function<bool()> at_rest) {
  Entry& entry = entries_.at(buffer);
  entry.released[static_cast<std::size_t>(rank)] = true;
  if (at_rest && !at_rest()) {
    entry.running.emplace(rank, std::move(at_rest));
  }
}

std::vector<ReleaseBoard::Id> ReleaseBoard::free_buffers() {
  std::vector<Id> free;
  for (auto& [buffer, entry] : entries_) {
    std::erase_if(entry.running, [](const auto& rank) { return rank.second(); });
    const bool all = std::find(entry.released.begin(), entry.released.end(), false) == entry.released.end();
    if (all && entry.running.empty()) {
      free.push_back(buffer);
    }
  }
  return free;
}

void ReleaseBoard::remove(const std::vector<Id>& buffers) {
  for (const Id buffer : buffers) {
    entries_.erase(buffer);
  }
}

std::string ReleaseBoard::waiting() const {
  constexpr int most_named = 4;
  std::string text;
  int found = 0;
  for (const auto& [buffer, entry] : entries_) {
    const auto& released = entry.released;
    if (std::find(released.begin(), released.end(), true) == released.end() || found++ >= most_named) {
      continue;
    }
    const auto holder = std::find(released.begin(), released.end(), false);
    const std::string named = fmt::format("'{}' ({} bytes)", entry.tag, entry.bytes);
    text += text.empty() ? "" : ", ";
    text += holder != released.end()
                ? fmt::format("rank {} still holds {}", holder - released.begin(), named)
                : fmt::format("what rank {} has launched still uses {}", entry.running.begin()->first, named);
  }
  return found > most_named ? fmt::format("{}, and {} buffers more", text, found - most_named) : text;
}

}  // namespace xstage::memory
