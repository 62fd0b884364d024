// SPDX-License-Identifier: MIT
// One end of the connections between two processes, with memory of both kinds and requests of all
// kinds; and what a process must not leave behind.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {

/// Longer than any test: only the death of the peer ends a request.
inline constexpr bring_up patient{.timeout = 21, .retry_count = 7};
inline constexpr std::chrono::seconds patience{20};

/// Registered memory that peers can map.
class shareable_buffer {
 public:
  shareable_buffer(ibv_pd* pd, std::size_t bytes);
  shareable_buffer(const shareable_buffer&) = delete;
  shareable_buffer& operator=(const shareable_buffer&) = delete;
  ~shareable_buffer();

  [[nodiscard]] std::byte* data() const { return memory_; }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_); }
  [[nodiscard]] std::uint32_t key() const { return mr_->rkey; }
  [[nodiscard]] ibv_mr* mr() const { return mr_; }
  /// Deregisters the memory, and registers it again. Returns the errno of the first failure, or 0.
  [[nodiscard]] int deregister();
  void register_again(ibv_pd* pd);

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  ibv_mr* mr_ = nullptr;
};

/// Numbers that the peer of an end needs.
struct end_card {
  std::array<std::uint32_t, 4> qpns{};
  std::array<std::uint32_t, 2> keys{};  ///< of the ordinary and of the shareable memory
  std::array<std::uint64_t, 2> addresses{};
};

enum class traffic_kind : std::uint8_t {
  send,
  long_send,
  long_send_shareable,
  write,
  write_shareable,
  long_write,
  long_write_shareable,
  read,
  read_shareable,
  atomic,
  atomic_shareable,
};
inline constexpr int traffic_kinds = 11;

/// A device with queue pairs and memory.
class traffic_end {
 public:
  /// The first half of the memory is for requests of the peer.
  static constexpr std::size_t memory_bytes = std::size_t{1} << 16;
  static constexpr std::size_t half = memory_bytes / 2;
  static constexpr std::size_t long_bytes = 20'000;

  explicit traffic_end(int queue_pairs = 1);

  [[nodiscard]] end_card card();
  /// Connects each queue pair to the peer's of the same position, and posts receive requests.
  void connect(const end_card& peer, const bring_up& how = patient);
  /// Posts one signaled request. Returns 0 or the errno.
  [[nodiscard]] int post(traffic_kind kind, std::size_t queue_pair = 0, std::uint64_t wr_id = 1);
  [[nodiscard]] int post_receive(std::size_t queue_pair = 0);
  /// Posts a request and waits for its completion.
  [[nodiscard]] ibv_wc_status transfer(traffic_kind kind, std::size_t queue_pair = 0);
  /// Polls once. Returns true and the completion if there is one of a send queue; receive requests
  /// that completed are posted again.
  [[nodiscard]] bool poll(ibv_wc& out);
  /// Moves all queue pairs to ERR, then destroys them, and consumes their completions.
  void disconnect();

  opened_device device{1024};
  buffer ordinary{device.pd, memory_bytes, 3};
  shareable_buffer shareable{device.pd, memory_bytes};
  std::vector<std::unique_ptr<queue_pair_handle>> queue_pairs;
  end_card peer;

 private:
  [[nodiscard]] std::size_t position_of(const ibv_wc& completion) const;
};

/// Has this process killed when its parent ends.
void end_with_parent();

/// Serves requests of its peer until it is killed, or its parent ends.
[[noreturn]] void serve_for_ever(traffic_end& mine);

/// A process that exchanges data with this one and verifies it: what others do must not affect it.
class third_process {
 public:
  third_process();
  /// Transfers data in both directions. Fails the test if a request fails or data differ.
  void check();

 private:
  traffic_end mine_;
  std::unique_ptr<child_process> other_;
  std::uint32_t round_ = 0;
};

/// Returns whether the child has ended. It stays to be joined.
[[nodiscard]] bool has_ended(pid_t child);
/// Returns the number of open descriptors of this process.
[[nodiscard]] std::size_t count_descriptors();
/// Returns a line for each open descriptor: its number and target.
[[nodiscard]] std::string list_descriptors();
/// Returns the names in /dev/shm.
[[nodiscard]] std::set<std::string> files_of_shared_memory();
/// Polls `done` until it holds. Returns false after a timeout.
[[nodiscard]] bool eventually(const std::function<bool()>& done);

/// Memory that this process shares with its children.
template <class T>
class shared_page {
 public:
  shared_page();
  shared_page(const shared_page&) = delete;
  shared_page& operator=(const shared_page&) = delete;
  ~shared_page();
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

[[nodiscard]] void* map_shared(std::size_t bytes);
void unmap_shared(void* memory, std::size_t bytes);

template <class T>
shared_page<T>::shared_page() : value_(new(map_shared(sizeof(T))) T()) {}
template <class T>
shared_page<T>::~shared_page() {
  unmap_shared(value_, sizeof(T));
}

}  // namespace verbena::softdev::testing
