// SPDX-License-Identifier: MIT
// The counters of a process where other processes of its user find them: a memfd, which
// `verbena devinfo --counters` opens through /proc/PID/fd. It ends with the process.
//
// Format: eight bytes `vbcount1`, the number of counters (64 bits), and for each counter a name of
// 32 bytes with zeros at the end, and its value (64 bits). Numbers are in the byte order of the
// host.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softdev/wire/socket/named_counters.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time. Allocates a page of shared memory.
class counter_page {
 public:
  static constexpr const char* file_name = "verbena-counters";

  /// Without a page if the kernel gives none: then other processes see no counters.
  counter_page() noexcept;
  ~counter_page();
  counter_page(const counter_page&) = delete;
  counter_page& operator=(const counter_page&) = delete;

  /// Stores the values. No system call.
  void publish(const std::array<named_counter, named_counter_count>& now) noexcept;
  [[nodiscard]] int fd() const noexcept { return file_.get(); }
  /// In a child of fork: the counters are those of the parent.
  void close() noexcept { file_.reset(); }

 private:
  struct entry {
    std::array<char, 32> name;
    std::atomic<std::uint64_t> value;
  };
  struct content {
    std::array<char, 8> format;
    std::uint64_t count;
    std::array<entry, named_counter_count> entries;
  };
  static_assert(sizeof(entry) == 40 && sizeof(content) == 16 + 40 * named_counter_count);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  unique_fd file_;
  content* content_ = nullptr;
};

}  // namespace verbena::softdev::wire
