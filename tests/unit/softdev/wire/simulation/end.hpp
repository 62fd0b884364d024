// SPDX-License-Identifier: MIT
// A queue pair of a simulated host, with its completion queues and registered memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "softdev/core/completion_queue.hpp"
#include "softdev/core/engine.hpp"

namespace verbena::softdev::wire::simulation {

inline constexpr domain_id domain{1};
inline constexpr access_flags everything =
    access::local_write | access::remote_write | access::remote_read | access::remote_atomic;
inline constexpr std::uint32_t most_requests = 64;
inline constexpr std::uint32_t qkey = 0x1234;  ///< of UD queue pairs

/// Registered memory with all access flags. Threads: one thread at a time.
class memory {
 public:
  memory(engine& home, std::size_t bytes);
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  ~memory();

  [[nodiscard]] std::byte* data() noexcept { return reinterpret_cast<std::byte*>(words_.data()); }
  [[nodiscard]] std::uint64_t address() noexcept {
    return reinterpret_cast<std::uintptr_t>(words_.data());
  }
  [[nodiscard]] std::uint32_t key() const noexcept { return key_; }
  [[nodiscard]] sge slice(std::size_t at, std::uint32_t bytes) noexcept {
    return {address() + at, bytes, key_};
  }
  /// Fills a range with a pattern that depends on `seed`.
  void fill(std::size_t at, std::size_t bytes, std::uint64_t seed) noexcept;
  /// Returns whether a range contains the pattern of `seed`.
  [[nodiscard]] bool holds(std::size_t at, std::size_t bytes, std::uint64_t seed) noexcept;

 private:
  engine& home_;
  std::vector<std::uint64_t> words_;
  std::uint32_t key_ = 0;
};

/// A queue pair of RC, UC or UD. Threads: one thread at a time.
class end {
 public:
  /// `observer` observes the receive completions.
  explicit end(engine& home, transport kind = transport::rc,
               completion_observer* observer = nullptr);
  end(const end&) = delete;
  end& operator=(const end&) = delete;
  ~end();
  /// Destroys the queue pair. Only the completion queues can be used afterwards.
  void destroy();

  [[nodiscard]] queue_pair& pair() noexcept { return *pair_; }
  [[nodiscard]] engine& home() noexcept { return home_; }
  [[nodiscard]] completion_queue& sent() noexcept { return sent_; }
  [[nodiscard]] completion_queue& received() noexcept { return received_; }
  /// Moves the queue pair to RTS.
  void connect(const queue_pair_attributes& attributes);
  /// `to`: the destination of a datagram.
  [[nodiscard]] bool post(const send_request& request, const std::vector<sge>& data,
                          const datagram_destination* to = nullptr);
  [[nodiscard]] bool post_receive(std::uint64_t wr_id, const sge& sink);

 private:
  void activate(const queue_pair_attributes& attributes);

  engine& home_;
  completion_queue sent_{{.capacity = 4 * most_requests}};
  completion_queue received_;
  queue_pair* pair_;
};

/// Returns attributes for a connection to `peer`, which the caller can change.
[[nodiscard]] queue_pair_attributes attributes_for(std::uint32_t peer) noexcept;

}  // namespace verbena::softdev::wire::simulation
