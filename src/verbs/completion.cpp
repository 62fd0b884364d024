// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion.hpp"

#include "src/verbs/text.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

std::string object_of(std::uint64_t id, queue_pair_number queue_pair) {
  return "work request " + std::to_string(id) + " on queue pair " +
         detail::hexadecimal(queue_pair.value());
}

}  // namespace

namespace detail {

result<void> completion_failure(const failed_completion& failed) {
  std::string diagnosis = to_string(failed.status);
  if (const auto meaning = describe(failed.status); !meaning.empty())
    diagnosis.append(" (").append(meaning).append(")");
  diagnosis += ", vendor error " + hexadecimal(failed.vendor_error);
  if (const auto cause = likely_cause(failed.status); !cause.empty())
    diagnosis.append("; usually: ").append(cause);
  return error({.kind = error_kind::completion,
                .code = static_cast<int>(failed.status),
                .call = "work request",
                .object = object_of(failed.id, failed.queue_pair),
                .diagnosis = std::move(diagnosis)});
}

}  // namespace detail

std::string to_string(const completion& done) {
  if (!done.ok()) return done.result().error().message();
  std::string text = object_of(done.id(), done.queue_pair()) + ": " + to_string(done.opcode());
  if (done.is_receive()) text += " of " + std::to_string(done.byte_length()) + " bytes";
  if (const auto number = done.immediate()) text += ", immediate " + detail::hexadecimal(*number);
  return text;
}

}  // namespace verbena::inline VERBENA_ABI
