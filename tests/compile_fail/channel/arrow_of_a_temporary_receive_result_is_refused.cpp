// SPDX-License-Identifier: MIT
// A temporary receive_result has no ->: its buffer would be used again while the text is read.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include <string_view>

#include "verbena/channel/message_channel.hpp"

std::size_t use(verbena::message_channel& channel, verbena::deadline until) {
#ifdef VERBENA_BAD
  const std::string_view text = channel.receive(until)->text();
#else
  const auto message = channel.receive(until);
  const std::string_view text = message->text();
#endif
  return text.size();
}
