// SPDX-License-Identifier: MIT
#include "tools/verbena/launch/agent_message.hpp"

#include <algorithm>
#include <charconv>

#include "verbena/net/membership.hpp"

namespace verbena::tool {
namespace {

constexpr std::size_t header_bytes = 13;  // kind, rank, number, length

void append_number(std::string& to, std::uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8)
    to += static_cast<char>(static_cast<unsigned char>(value >> shift));
}

// Precondition: 4 bytes.
std::uint32_t number_at(std::string_view bytes) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < 4; ++i)
    value |= std::uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

error malformed(const char* why) { return error::protocol("verbena launch", "message", why); }

// A list of texts, each with its length.
class text_list {
 public:
  explicit text_list(std::string_view bytes) noexcept : left_(bytes) {}

  [[nodiscard]] bool is_empty() const noexcept { return left_.empty(); }
  [[nodiscard]] result<std::string> text() {
    if (left_.size() < 4) return malformed("the job is truncated in a length field");
    const std::size_t bytes = number_at(left_);
    left_.remove_prefix(4);
    if (bytes > left_.size()) return malformed("a string exceeds the job");
    const auto found = left_.substr(0, bytes);
    if (found.find('\0') != std::string_view::npos)
      return malformed("a string of the job contains a NUL byte");
    left_.remove_prefix(bytes);
    return std::string(found);
  }
  [[nodiscard]] result<std::uint32_t> number(std::uint32_t most) {
    VERBENA_TRY(const auto digits, text());
    std::uint32_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, code] = std::from_chars(digits.data(), end, value);
    if (code != std::errc() || stop != end || value > most)
      return malformed("a number of the job is out of range");
    return value;
  }
  [[nodiscard]] result<std::vector<std::string>> texts() {
    VERBENA_TRY(const auto count, number(1U << 20U));
    std::vector<std::string> all;
    for (std::uint32_t i = 0; i < count; ++i) {
      VERBENA_TRY(auto each, text());
      all.push_back(std::move(each));
    }
    return all;
  }

 private:
  std::string_view left_;
};

}  // namespace

void append_message(std::string& to, const agent_message& message) {
  to += static_cast<char>(message.kind);
  append_number(to, message.rank);
  append_number(to, message.number);
  append_number(to, static_cast<std::uint32_t>(message.text.size()));
  to += message.text;
}

result<std::optional<agent_message>> message_reader::next() {
  if (bytes_.size() < header_bytes) return std::optional<agent_message>();
  const auto kind = static_cast<unsigned char>(bytes_.front());
  if (kind < static_cast<unsigned>(message_kind::job) ||
      kind > static_cast<unsigned>(message_kind::refused))
    return malformed("a message has an unknown kind");
  const std::string_view all = bytes_;
  const std::size_t length = number_at(all.substr(9));
  if (length > most_) return malformed("a message exceeds its limit");
  if (bytes_.size() < header_bytes + length) return std::optional<agent_message>();
  agent_message message{.kind = static_cast<message_kind>(kind),
                        .rank = number_at(all.substr(1)),
                        .number = number_at(all.substr(5)),
                        .text = std::string(all.substr(header_bytes, length))};
  bytes_.erase(0, header_bytes + length);
  return std::optional(std::move(message));
}

std::string encode_job(const agent_job& job) {
  std::string out;
  const auto add = [&](const std::string& text) {
    append_number(out, static_cast<std::uint32_t>(text.size()));
    out += text;
  };
  for (const std::uint32_t each : {job.first_rank, job.count, job.size}) add(std::to_string(each));
  add(job.folder);
  add(job.store_host);
  add(std::to_string(job.store_port));
  add(job.secret);
  for (const auto* const list : {&job.variables, &job.command}) {
    add(std::to_string(list->size()));
    for (const auto& each : *list) add(each);
  }
  return out;
}

result<agent_job> decode_job(std::string_view text) {
  text_list from(text);
  agent_job job;
  VERBENA_TRY(job.first_rank, from.number(net::max_ranks));
  VERBENA_TRY(job.count, from.number(net::max_ranks));
  VERBENA_TRY(job.size, from.number(net::max_ranks));
  VERBENA_TRY(job.folder, from.text());
  VERBENA_TRY(job.store_host, from.text());
  VERBENA_TRY(const auto port, from.number(65535));
  job.store_port = static_cast<std::uint16_t>(port);
  VERBENA_TRY(job.secret, from.text());
  VERBENA_TRY(job.variables, from.texts());
  VERBENA_TRY(job.command, from.texts());
  if (!from.is_empty()) return malformed("the job has trailing bytes");
  if (job.count == 0 || job.first_rank + job.count > job.size)
    return malformed("the ranks of a job are not in the group");
  if (job.command.empty() || job.command.front().empty()) return malformed("a job has no program");
  if (!std::ranges::all_of(job.variables, [](const std::string& each) {
        return each.find('=') != std::string::npos && each.front() != '=';
      }))
    return malformed("a variable of a job has no name");
  return job;
}

}  // namespace verbena::tool
