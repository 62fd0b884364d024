// SPDX-License-Identifier: MIT
// The messages between `verbena launch` and its agent on another host, over the standard input and
// output of ssh. Both sides check all bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"

namespace verbena::tool {

/// The first output of the agent. Shells print other text before it.
inline constexpr std::string_view agent_greeting = "\x01verbena-launch-agent 1\n";

/// The meaning of a message.
enum class message_kind : std::uint8_t {
  job = 1,  ///< to the agent: an agent_job, once
  signal,   ///< to the agent: the number of a signal for all processes, in `number`
  output,   ///< of a rank: bytes of its standard output
  errors,   ///< of a rank: bytes of its standard error
  ended,    ///< of a rank: its status of waitpid(2) in `number`, its process in `text`
  refused,  ///< of the agent: why no process was started, and an exit status in `number`
};

/// A message. Threads: immutable value.
struct agent_message {
  message_kind kind = message_kind::job;
  std::uint32_t rank = 0;  ///< of output, errors and ended
  std::uint32_t number = 0;
  std::string text;
};

/// The largest text of a message, except that of a job.
inline constexpr std::size_t max_text_bytes = std::size_t{64} << 10U;
/// The largest job. The kernel's limit of arguments and variables is lower.
inline constexpr std::size_t max_job_bytes = std::size_t{8} << 20U;

/// Appends the bytes of a message.
void append_message(std::string& to, const agent_message& message);

/// Divides received bytes into messages. Threads: one thread at a time.
class message_reader {
 public:
  /// `most` is the largest text.
  explicit message_reader(std::size_t most) noexcept : most_(most) {}

  /// Adds received bytes.
  void add(std::string_view bytes) { bytes_.append(bytes); }
  /// Returns the next complete message; nullopt if more bytes are needed. Errors: `protocol` for an
  /// unknown kind, or a text beyond the limit.
  [[nodiscard]] result<std::optional<agent_message>> next();

 private:
  std::size_t most_;
  std::string bytes_;
};

/// The processes of an agent. Threads: immutable value.
struct agent_job {
  std::uint32_t first_rank = 0;
  std::uint32_t count = 1;  ///< ranks of this agent
  std::uint32_t size = 1;   ///< ranks of the group
  std::string folder;       ///< the working folder
  /// The host of the store; empty: the client address of SSH_CONNECTION.
  std::string store_host;
  std::uint16_t store_port = 0;
  std::string secret;
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::vector<std::string> command;    ///< not empty
};

/// Returns the text of a job.
[[nodiscard]] std::string encode_job(const agent_job& job);
/// Reads the text of a job. Errors: `protocol`.
[[nodiscard]] result<agent_job> decode_job(std::string_view text);

}  // namespace verbena::tool
