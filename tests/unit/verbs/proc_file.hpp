// SPDX-License-Identifier: MIT
// Numbers in files of /proc and /sys.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace verbena::test {

/// Returns the number after `name` in a file; 0 if there is none. In smaps, uses the mapping that
/// contains `address`.
inline std::uint64_t number_in(const std::string& path, const std::string& name,
                               std::uintptr_t address = 0) {
  std::ifstream file(path);
  bool inside = address == 0;
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2)
      inside = address == 0 || (begin <= address && address < end);
    const auto at = line.find(name);
    if (!inside || at == std::string::npos) continue;
    std::istringstream rest(line.substr(at + name.size()));
    std::uint64_t number = 0;
    rest >> number;
    return number;
  }
  return 0;
}

}  // namespace verbena::test
