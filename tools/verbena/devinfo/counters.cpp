// SPDX-License-Identifier: MIT
#include "tools/verbena/devinfo/counters.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbena/base/fd.hpp"

namespace verbena::tool {
namespace {

namespace fs = std::filesystem;

/// Returns the names in a folder, sorted by length and then by text, so that numbers are in numeric
/// order. A process that ends meanwhile is not an error.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator each(folder, failed), end; !failed && each != end;
       each.increment(failed))
    names.push_back(each->path().filename().string());
  std::sort(names.begin(), names.end(), [](const std::string& one, const std::string& other) {
    return std::pair(one.size(), one) < std::pair(other.size(), other);
  });
  return names;
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string first_line(const fs::path& file) {
  std::ifstream from(file);
  std::string line;
  std::getline(from, line);
  for (char& letter : line)
    if (letter < ' ' || letter > '~') letter = '?';
  return line;
}

section counters_of_port(const fs::path& folder) {
  section all;
  for (const char* const kind : {"counters", "hw_counters"}) {
    for (const std::string& name : names_in(folder / kind)) {
      // `lifespan` is a setting.
      const auto number =
          name == "lifespan" ? std::nullopt : number_in(first_line(folder / kind / name));
      if (number) all.push_back({name, *number});
    }
  }
  return all;
}

/// Reads the counters that a process of soft0 publishes (softdev/wire/socket/counter_page.hpp). The
/// file belongs to another process, so its content is not trusted.
section published_counters(const fs::path& file) {
  constexpr std::size_t head_bytes = 16;
  constexpr std::size_t name_bytes = 32;
  constexpr std::size_t entry_bytes = name_bytes + sizeof(std::uint64_t);
  constexpr std::size_t most = 100;
  std::array<char, head_bytes + most * entry_bytes> bytes{};
  section all;
  // A FIFO or a device may have this name. Opening it must not block, and it is not read.
  const unique_fd from(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!from || ::fcntl(from.get(), F_GET_SEALS) < 0) return all;
  const ssize_t got = ::pread(from.get(), bytes.data(), bytes.size(), 0);
  const auto length = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  if (length < head_bytes || !std::string_view(bytes.data(), length).starts_with("vbcount1"))
    return all;
  std::uint64_t count = 0;
  std::memcpy(&count, bytes.data() + 8, sizeof count);
  count = std::min<std::uint64_t>(count, (length - head_bytes) / entry_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const char* const entry = bytes.data() + head_bytes + i * entry_bytes;
    const std::string name(entry, ::strnlen(entry, name_bytes));
    const bool valid = !name.empty() && std::all_of(name.begin(), name.end(), [](char letter) {
      return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
    });
    if (!valid) continue;
    std::uint64_t number = 0;
    std::memcpy(&number, entry + name_bytes, sizeof number);
    all.push_back({name, number});
  }
  return all;
}

std::vector<section> processes_of_soft0() {
  std::vector<section> all;
  for (const std::string& process : names_in("/proc")) {
    const auto pid = number_in(process);
    if (!pid) continue;
    const fs::path files = fs::path("/proc") / process / "fd";
    for (const std::string& name : names_in(files)) {
      std::error_code failed;
      const std::string target = fs::read_symlink(files / name, failed).string();
      if (failed || !target.starts_with("/memfd:verbena-counters")) continue;
      section counters = published_counters(files / name);
      if (counters.empty()) continue;
      all.push_back({{"pid", *pid},
                     {"program", first_line(fs::path("/proc") / process / "comm")},
                     {"counters", std::move(counters)}});
      break;
    }
  }
  return all;
}

}  // namespace

section describe_counters(const device& which, std::optional<std::uint32_t> port) {
  section all{{"name", which.name()}};
  if (which.origin() == provider_origin::soft) {
    all.push_back({"processes", processes_of_soft0()});
    return all;
  }
  std::vector<section> ports;
  const fs::path folder = fs::path("/sys/class/infiniband") / which.name() / "ports";
  for (const std::string& name : names_in(folder)) {
    const auto number = number_in(name);
    if (!number || (port && *number != *port)) continue;
    ports.push_back({{"port", *number}, {"counters", counters_of_port(folder / name)}});
  }
  all.push_back({"ports", std::move(ports)});
  return all;
}

}  // namespace verbena::tool
