// SPDX-License-Identifier: MIT
// The messages of a peer of rcopy. Each input is passed to all decoders.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "examples/rcopy/protocol.hpp"
#include "tests/fuzz/target.hpp"

namespace rcopy {
namespace {

using verbena::fuzz::require;

bool is_usable(const flow& of) {
  return of.chunk_bytes >= smallest_chunk && of.chunk_bytes <= largest_chunk && of.window >= 1 &&
         of.window <= largest_window && of.buffer_bytes() <= largest_buffer;
}

// An accepted message has one encoding.
template <class Message>
void check_message(const verbena::result<Message>& got, verbena::fuzz::input bytes) {
  if (got)
    require(std::ranges::equal(encode(*got), bytes));
  else
    require(!got.error().message().empty());
}

void check_times(const time_shares& of) {
  for (const auto each : of.stages()) require(each.count() >= 0);
}

void run_rcopy(verbena::fuzz::input bytes) {
  const auto asked = decode_request(bytes);
  check_message(asked, bytes);
  if (asked) {
    require(is_usable(asked->flow) && asked->file_bytes <= largest_file);
    require(check_name(asked->name).has_value() && asked->name.find('/') == std::string::npos &&
            asked->name.find('\0') == std::string::npos && asked->name.size() <= 255);
  }
  const auto replied = decode_reply(bytes);
  check_message(replied, bytes);
  if (replied) require(is_usable(replied->flow) && replied->file_bytes <= largest_file);
  const auto sent = decode_summary(bytes);
  check_message(sent, bytes);
  if (sent) check_times(sent->time);
  const auto stored = decode_stored(bytes);
  check_message(stored, bytes);
  if (stored) check_times(*stored);
  check_message(decode_rendezvous(bytes), bytes);
}

void rcopy_seeds(verbena::fuzz::seed_folder& into) {
  const flow usual{.chunk_bytes = 1U << 20, .window = 8};
  into.add("put", encode(request{.flow = usual, .file_bytes = 1000, .name = "file.txt"}));
  into.add("get", encode(request{.what = operation::get,
                                 .over = transport::cm,
                                 .flow = usual,
                                 .file_bytes = 0,
                                 .name = "file.txt"}));
  into.add("other_directory", encode(request{.flow = usual, .name = "../file"}));
  into.add("reply", encode(reply{.flow = usual, .file_bytes = 1000}));
  time_shares times;
  times.file = std::chrono::microseconds(5);
  into.add("summary", encode(summary{.file_bytes = 1000, .time = times}));
  into.add("stored", encode(times));
  into.add("rendezvous", encode(rendezvous{.port = 7471}));
}

const verbena::fuzz::target protocol("rcopy", run_rcopy, rcopy_seeds);

}  // namespace
}  // namespace rcopy
