// SPDX-License-Identifier: MIT
// verbena_soft_inject_event: events and faults of adapters, for tests and demonstrations.
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "softdev/shim/functions.hpp"
#include "softdev/shim/objects.hpp"
#include "softdev/shim/script.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

constexpr const char* call = "verbena_soft_inject_event";

// Reads the text of a caller.
result<script> read_commands(const char* text) {
  constexpr std::size_t longest = 1U << 16U;
  const std::size_t length = strnlen(text, longest + 1);
  if (length > longest)
    return error::invalid_argument(call, {},
                                   "the script has more than 65536 bytes; use a file: @FILE");
  VERBENA_TRY(script steps, read_script(call, {text, length}));
  if (steps.empty())
    return error::invalid_argument(
        call, {}, "the script is empty; give a command, for example `port 1 down`");
  return steps;
}

}  // namespace
}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

int verbena_soft_inject_event(ibv_context* context, const char* commands) {
  if (context == nullptr || commands == nullptr) return EINVAL;
  const context_object& object = object_of(context);
  if (!usable(object)) return ENODEV;
  auto steps = read_commands(commands);
  if (!steps) {
    verbena::log(verbena::log_level::warning, "soft0: " + steps.error().message());
    return steps.error().code();
  }
  return run_script(*object.host, *std::move(steps));
}

std::size_t verbena_soft_check_commands(const char* commands, char* text, std::size_t capacity) {
  const auto steps = read_commands(commands);
  if (steps) return 0;
  const std::string message = steps.error().message();
  if (capacity > 0) text[message.copy(text, capacity - 1)] = '\0';
  return message.size();
}

}  // extern "C"
