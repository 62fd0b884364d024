// SPDX-License-Identifier: MIT
#include "tools/verbena/launch/byte_streams.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace verbena::tool {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{64} << 10U;

}  // namespace

bool write_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(to, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

read_outcome read_some(int from, std::string& to) {
  std::array<char, std::size_t{64} << 10U> room;
  while (true) {
    const auto count = ::read(from, room.data(), room.size());
    if (count > 0) {
      to.append(room.data(), static_cast<std::size_t>(count));
      return read_outcome::bytes;
    }
    if (count < 0 && errno == EINTR) continue;
    return count < 0 && errno == EAGAIN ? read_outcome::would_block : read_outcome::end;
  }
}

void prefixed_lines::add(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    const bool ends = newline != std::string_view::npos;
    partial_ += bytes.substr(0, ends ? newline : bytes.size());
    bytes.remove_prefix(ends ? newline + 1 : bytes.size());
    if (!ends && partial_.size() < max_line_bytes) break;
    out += prefix_ + partial_ + '\n';
    partial_.clear();
  }
  // If the reader has gone, the output is lost, and the ranks end as they would without it.
  static_cast<void>(write_all(to_, out));
}

void prefixed_lines::end() {
  if (!partial_.empty()) add("\n");
}

}  // namespace verbena::tool
