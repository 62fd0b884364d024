// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion.hpp"

#include <fmt/format.h>

namespace verbena::inline VERBENA_ABI {
namespace {

std::string request_text(std::uint64_t id) { return fmt::format("work request {}", id); }

std::string queue_pair_text(queue_pair_number number) {
  return fmt::format("queue pair {:#x}", number.value());
}

}  // namespace

namespace detail {

result<void> completion_failure(const failed_completion& failed) {
  std::string diagnosis = to_string(failed.status);
  if (const auto meaning = describe(failed.status); !meaning.empty())
    diagnosis += fmt::format(" ({})", meaning);
  diagnosis += fmt::format(", vendor error {:#x}", failed.vendor_error);
  if (const auto cause = likely_cause(failed.status); !cause.empty())
    diagnosis += fmt::format("; usually: {}", cause);
  return error(error_kind::completion, static_cast<int>(failed.status), request_text(failed.id),
               queue_pair_text(failed.queue_pair), diagnosis);
}

}  // namespace detail

std::string to_string(const completion& done) {
  if (!done.ok()) return done.result().error().message();
  std::string text = fmt::format("{} on {}: {}", request_text(done.id()),
                                 queue_pair_text(done.queue_pair()), to_string(done.opcode()));
  if (done.is_receive()) text += fmt::format(" of {} bytes", done.byte_length());
  if (const auto number = done.immediate()) text += fmt::format(", immediate {:#x}", *number);
  return text;
}

}  // namespace verbena::inline VERBENA_ABI
