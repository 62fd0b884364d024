// SPDX-License-Identifier: MIT
// The placement of memory and threads, as the kernel reports it. Does not use hwloc.
#pragma once

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace verbena::test {

/// Returns the nodes of the pages of `memory`; -errno for pages without a node.
inline std::set<int> pages_of(std::span<const std::byte> memory) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<const void*> pages;
  for (std::size_t at = 0; at < memory.size(); at += page) pages.push_back(&memory[at]);
  std::vector<int> nodes(pages.size(), -1000);
  if (::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0)
    return {-2000};
  return {nodes.begin(), nodes.end()};
}

/// Untouched pages.
class fresh_memory {
 public:
  explicit fresh_memory(std::size_t bytes)
      : memory_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        bytes_(memory_ == MAP_FAILED ? 0 : bytes) {}
  fresh_memory(const fresh_memory&) = delete;
  fresh_memory& operator=(const fresh_memory&) = delete;
  ~fresh_memory() { ::munmap(memory_, bytes_); }
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory_), bytes_};
  }

 private:
  void* memory_;
  std::size_t bytes_;
};

/// A memory policy of the kernel: its mode (MPOL_BIND …) and its nodes.
struct memory_policy {
  int mode = -1;
  std::set<unsigned> nodes;
  friend bool operator==(const memory_policy&, const memory_policy&) = default;
};

/// Returns the policy of the memory at `address`, or of the calling thread.
inline memory_policy policy_of(const void* address = nullptr) {
  constexpr std::size_t bits = 1024;
  std::array<unsigned long, bits / 64> mask{};
  memory_policy found;
  const int flags = address == nullptr ? 0 : MPOL_F_ADDR;
  if (::syscall(SYS_get_mempolicy, &found.mode, mask.data(), bits, address, flags) != 0) return {};
  for (unsigned i = 0; i < bits; ++i)
    if ((mask[i / 64] >> (i % 64) & 1U) != 0) found.nodes.insert(i);
  return found;
}

/// Returns whether the process may select nodes. In containers it often may not.
inline bool may_place() { return ::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0) == 0; }

/// Parses a list of the kernel: `0-1,4`.
inline std::set<unsigned> numbers_of(const std::string& list) {
  std::set<unsigned> all;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    unsigned first = 0;
    unsigned last = 0;
    const int read = std::sscanf(part.c_str(), "%u-%u", &first, &last);
    for (unsigned i = first; read >= 1 && i <= (read == 2 ? last : first); ++i) all.insert(i);
  }
  return all;
}

/// Reads a list of numbers from a file.
inline std::set<unsigned> numbers_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return numbers_of(line);
}

/// Returns the processors that the calling thread may run on.
inline std::set<unsigned> processors_of_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::set<unsigned> all;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return all;
  for (unsigned i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) all.insert(i);
  return all;
}

/// Returns the folder of a node in sysfs.
inline std::string folder_of(unsigned node) {
  return "/sys/devices/system/node/node" + std::to_string(node) + "/";
}

}  // namespace verbena::test
