// SPDX-License-Identifier: MIT
#include "tools/verbena/capture/blocks.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "verbena/base/fd.hpp"

namespace verbena::tool {
namespace {

constexpr std::uint32_t section_type = 0x0a0d'0d0a;
constexpr std::uint32_t packet_type = 6;
constexpr std::size_t smallest_block = 12;
constexpr std::size_t packet_fields = 28;
constexpr std::uint16_t dropped_option = 4;

template <class T>
T value_at(std::span<const std::byte> bytes, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

packet_count count_one(std::span<const std::byte> block) noexcept {
  if (value_at<std::uint32_t>(block, 0) != packet_type || block.size() < packet_fields + 4)
    return {};
  packet_count one{.stored = 1};
  const std::size_t captured = value_at<std::uint32_t>(block, 20);
  if (captured > block.size()) return one;
  const std::size_t options = packet_fields + (captured + 3) / 4 * 4;
  // soft0 writes no other option before `dropped_option`.
  if (options + 16 <= block.size() && value_at<std::uint16_t>(block, options) == dropped_option)
    one.lost = value_at<std::uint64_t>(block, options + 4);
  return one;
}

}  // namespace

bool begins_capture(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= smallest_block && value_at<std::uint32_t>(bytes, 0) == section_type;
}

packet_count count_packets(std::span<const std::byte> blocks) noexcept {
  packet_count all;
  while (blocks.size() >= smallest_block) {
    const std::size_t bytes = value_at<std::uint32_t>(blocks, 4);
    if (bytes < smallest_block || bytes > blocks.size()) break;
    all += count_one(blocks.first(bytes));
    blocks = blocks.subspan(bytes);
  }
  return all;
}

std::optional<packet_count> count_packets_of(const std::string& file) {
  const unique_fd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!opened || ::fstat(opened.get(), &status) != 0) return std::nullopt;
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes == 0) return packet_count{};
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, opened.get(), 0);
  if (mapped == MAP_FAILED) return std::nullopt;
  const packet_count found = count_packets({static_cast<const std::byte*>(mapped), bytes});
  ::munmap(mapped, bytes);
  return found;
}

}  // namespace verbena::tool
