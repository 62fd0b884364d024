// SPDX-License-Identifier: MIT
// Fixtures of entries: two connected queue pairs or channels on soft0, and memory that outlives
// them.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/zoo/entry.hpp"
#include "verbena/verbena.hpp"

namespace verbena::zoo {

using namespace std::chrono_literals;

inline constexpr access_flags all_access =
    access::local_write | access::remote_read | access::remote_write | access::remote_atomic;

/// The time limit of waits for events that must occur.
inline deadline long_deadline() { return deadline::after(20s); }
/// The time limit of waits for events that do not occur. Twins wait about 3 ms.
inline deadline short_deadline() { return deadline::after(300ms); }

/// Polls until `count` completions have arrived or `until` has expired.
inline std::vector<completion> take(const completion_queue& queue, std::size_t count,
                                    deadline until = long_deadline()) {
  std::vector<completion> taken;
  std::array<completion, 16> room;
  while (taken.size() < count && !until.expired())
    for (const auto& done : queue.poll(room).value()) taken.push_back(done);
  return taken;
}
/// Polls `count` completions. Fails the entry if one is missing or failed.
inline std::vector<completion> take_successful(const completion_queue& queue, std::size_t count) {
  auto taken = take(queue, count);
  require(taken.size() == count, "completions are missing");
  for (const auto& each : taken)
    require(each.ok(), "a completion failed: " + to_string(each.status()));
  return taken;
}

inline void put(std::span<std::byte> into, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  std::copy(bytes.begin(), bytes.end(), into.begin());
}
/// Returns the first `count` bytes of memory as text.
inline std::string text_at(std::span<const std::byte> from, std::size_t count) {
  return {reinterpret_cast<const char*>(from.data()), count};
}

/// One side: a queue pair with its own completion queues.
struct end_of_pair {
  completion_queue sends;
  completion_queue receives;
  queue_pair<rc> queue;
};

/// Two connected queue pairs and 64 KiB of memory with all access flags.
class pair {
 public:
  explicit pair(queue_pair_options<rc> options = default_options())
      : device(open_device("soft0").value()),
        pd(device.allocate_pd().value()),
        memory(pd.allocate(64 * 1024, all_access).value()) {
    auto first = prepare(options);
    auto second = prepare(options);
    const auto to_first = first.queue.endpoint();
    const auto to_second = second.queue.endpoint();
    a.emplace(end_of_pair{first.sends, first.receives,
                          std::move(first.queue).handshake(to_second).value()});
    b.emplace(end_of_pair{second.sends, second.receives,
                          std::move(second.queue).handshake(to_first).value()});
  }

  static queue_pair_options<rc> default_options() {
    return {.queues = {.max_send_wr = 16,
                       .max_recv_wr = 16,
                       .max_send_sge = 4,
                       .max_recv_sge = 4,
                       .max_inline_data = 64},
            .access = access::remote_read | access::remote_write | access::remote_atomic,
            .reliability = {.rnr_retry_count = 7}};
  }

  /// Returns a part of the memory.
  [[nodiscard]] std::span<std::byte> at(std::size_t offset, std::size_t length) const {
    return memory.bytes().subspan(offset, length);
  }

  context device;
  protection_domain pd;
  memory_region memory;
  std::optional<end_of_pair> a;
  std::optional<end_of_pair> b;

 private:
  struct prepared {
    completion_queue sends;
    completion_queue receives;
    prepared_queue_pair<rc> queue;
  };
  prepared prepare(const queue_pair_options<rc>& options) const {
    auto sends = device.create_cq(64).value();
    auto receives = device.create_cq(64).value();
    auto queue = pd.create_qp<rc>(sends, receives, options).value();
    return {std::move(sends), std::move(receives), std::move(queue)};
  }
};

/// Two connected channels and 64 KiB of memory with all access flags.
class channels {
 public:
  explicit channels(const channel_options& options = default_options())
      : device(open_device("soft0").value()),
        pd(device.allocate_pd().value()),
        memory(pd.allocate(64 * 1024, all_access).value()) {
    auto first = pd.create_channel(options).value();
    auto second = pd.create_channel(options).value();
    const auto to_first = first.endpoint();
    const auto to_second = second.endpoint();
    a.emplace(std::move(first).handshake(to_second).value());
    b.emplace(std::move(second).handshake(to_first).value());
  }

  static channel_options default_options() {
    return {.queues = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4},
            .access = access::remote_read | access::remote_write | access::remote_atomic};
  }
  /// Creates a pool of buffers of 4 KiB.
  [[nodiscard]] buffer_pool pool(std::uint32_t count = 8) const {
    return buffer_pool::create(pd, {.classes = {{.bytes = 4096, .count = count}}}).value();
  }
  [[nodiscard]] std::span<std::byte> at(std::size_t offset, std::size_t length) const {
    return memory.bytes().subspan(offset, length);
  }

  context device;
  protection_domain pd;
  memory_region memory;
  std::optional<channel> a;
  std::optional<channel> b;
};

inline post_status send(queue_pair<rc>& queue, send_request request, const local_slice& data,
                        call_site where = call_site::here()) {
  auto batch = queue.start_send();
  batch.send(request, data);
  return batch.submit(where);
}

/// A queue pair that is connected to itself and whose receive queue has a completion channel.
struct qp_with_channel {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, all_access).value();
  completion_channel channel = device.create_completion_channel().value();
  completion_queue sends = device.create_cq(64).value();
  completion_queue receives = device.create_cq(64, {.channel = channel}).value();
  queue_pair<rc> queue = connected();

  queue_pair<rc> connected() const {
    auto made =
        pd.create_qp<rc>(sends, receives,
                         {.access = access::remote_write, .reliability = {.rnr_retry_count = 7}})
            .value();
    const auto self = made.endpoint();
    return std::move(made).handshake(self).value();
  }
  void message(std::uint64_t id) {
    queue.post_receive({.id = id}, memory.slice(id * 64, 64)).value();
    send(queue, {.id = id, .signaled = true}, memory.slice(2048, 64)).value();
    take_successful(sends, 1);
  }
};

}  // namespace verbena::zoo
