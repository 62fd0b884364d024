// SPDX-License-Identifier: MIT
// The counters of a process in shared memory that other processes of its user can read: a memfd,
// which `verbena devinfo --counters` opens through /proc/PID/fd. It ends with the process.
//
// Format: the eight bytes `vbcount1`, the number of counters (64 bits), and for each counter its
// name (32 bytes, padded with zeros) and its value (64 bits). Numbers are in host byte order.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softdev/wire/socket/named_counters.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time. The constructor allocates a page of shared memory.
class counter_page {
 public:
  static constexpr const char* file_name = "verbena-counters";

  /// If the kernel provides no page, other processes see no counters. This is not an error.
  counter_page() noexcept;
  ~counter_page();
  counter_page(const counter_page&) = delete;
  counter_page& operator=(const counter_page&) = delete;

  /// Stores the values. Makes no system call.
  void publish(const std::array<named_counter, named_counter_count>& now) noexcept;
  [[nodiscard]] int fd() const noexcept { return file_.get(); }
  /// Called in the child of a fork, because the counters belong to the parent.
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
