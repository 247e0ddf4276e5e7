#pragma once
// What a bounded wait writes when it gives up (design rule 4). Plain data, shared by kernels and host.

#include <cstdint>

namespace xstage::kernels {

/// The places where a kernel waits for another rank. wait_report.cpp has their descriptions.
enum class WaitSite : std::uint32_t {
  peer_entry = 1,  // before the first store into a peer's buffers: has the peer entered this call?
  partial_tile,    // reduction: has the peer's partial tile arrived?
  gathered_chunk,  // all-gather: has the chunk of the peer's rows arrived?
  peer_done,       // end of the call: has everything that the peer stores here arrived?
  copies_sent,     // end of the call: have the copy engine's transfers left?
  end_of_call,     // not a wait: another rank had given up when this one finished
  input_tile,      // attention: has the tile of the projection before it arrived?
  own_blocks,      // mixture of experts: have the rank's other CTAs counted?
  sent_tokens,     // have the peer's tokens arrived?
  returned_rows,   // has what the peer's experts computed arrived?
};

/// Lies in pinned host memory, one for each rank and operation. The first wait that gives up fills it.
struct WaitReport {
  std::uint32_t raised;    // 0: no wait gave up; 1: being filled; 2: complete
  std::uint32_t site;      // WaitSite
  std::int32_t rank;       // the rank that waited
  std::int32_t peer;       // the rank that it waited for
  std::uint32_t index;     // number of the counter within the site
  std::uint32_t expected;  // the value waited for
  std::uint32_t observed;  // the value seen last
  std::uint32_t block;     // CTA that waited
  std::uint32_t epoch;     // number of the operation's call
  std::uint32_t waited_us;
  std::uint32_t told;  // 1: the wait ended because another one had given up; 0: it timed out
};

}  // namespace xstage::kernels
