// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion.hpp"

#include "src/verbs/text.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

std::string request_text(std::uint64_t id) { return "work request " + std::to_string(id); }

std::string queue_pair_text(queue_pair_number number) {
  return "queue pair " + detail::hexadecimal(number.value());
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
  return error(error_kind::completion, static_cast<int>(failed.status), request_text(failed.id),
               queue_pair_text(failed.queue_pair), diagnosis);
}

}  // namespace detail

std::string to_string(const completion& done) {
  if (!done.ok()) return done.result().error().message();
  std::string text = request_text(done.id()) + " on " + queue_pair_text(done.queue_pair()) + ": " +
                     to_string(done.opcode());
  if (done.is_receive()) text += " of " + std::to_string(done.byte_length()) + " bytes";
  if (const auto number = done.immediate()) text += ", immediate " + detail::hexadecimal(*number);
  return text;
}

}  // namespace verbena::inline VERBENA_ABI
