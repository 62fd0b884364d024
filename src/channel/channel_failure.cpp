// SPDX-License-Identifier: MIT
#include "verbena/channel/channel_failure.hpp"

#include <cerrno>
#include <string>

namespace verbena::inline VERBENA_ABI {
namespace {

// Appends a count unless it is 0.
void count(std::string& text, std::uint64_t number, const char* of_what) {
  if (number == 0) return;
  text += text.empty() ? "" : ", ";
  text += std::to_string(number) + of_what;
}

}  // namespace

std::string to_string(failure_cause of) {
  switch (of) {
    case failure_cause::operation:
      return "an operation failed";
    case failure_cause::connection:
      return "the adapter or the peer ended the connection; no operation of this side failed first";
    case failure_cause::aborted:
      return "an abort_at passed, and the connection was ended";
    case failure_cause::program:
      return "the program ended the connection";
    case failure_cause::adapter:
      return "polling or flushing failed, and the queue pair was destroyed";
  }
  return "unknown (" + std::to_string(static_cast<unsigned>(of)) + ")";
}

std::string to_string(const operation_fates& of) {
  std::string text;
  count(text, of.not_done, " not done");
  count(text, of.unknown, " unknown");
  count(text, of.receives, " receives without a message");
  return text.empty() ? "none" : text;
}

error channel_failure::error() const {
  const std::string ended = "operations that did not succeed: " + to_string(fates);
  const std::string why = "the connection has ended: " + to_string(cause);
  if (first) return first->error().with_diagnosis(why).with_diagnosis(ended);
  constexpr const char* call = "channel";
  if (cause == failure_cause::aborted) return error::timed_out(call, {}, why).with_diagnosis(ended);
  return error::from_errno(code == 0 ? ECONNABORTED : code, call, {}, why).with_diagnosis(ended);
}

}  // namespace verbena::inline VERBENA_ABI
