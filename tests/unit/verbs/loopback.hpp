// SPDX-License-Identifier: MIT
// Two connected queue pairs on the software device, and memory with a seeded pattern.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device_list.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"

namespace verbena::test {

using namespace std::chrono_literals;

/// Returns bytes that depend only on `seed`.
inline std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<std::byte> made(bytes);
  for (auto& byte : made) byte = static_cast<std::byte>(generator());
  return made;
}

inline void fill(std::span<std::byte> out, std::uint32_t seed) {
  const auto bytes = pattern(out.size(), seed);
  std::copy(bytes.begin(), bytes.end(), out.begin());
}

/// Polls until it has `count` completions, or fewer if `limit` passes.
inline std::vector<completion> take(const completion_queue& queue, std::size_t count,
                                    std::chrono::milliseconds limit = 20s) {
  std::vector<completion> taken;
  std::array<completion, 16> room;
  const auto end = deadline::after(limit);
  while (taken.size() < count && !end.expired())
    for (const auto& done : queue.poll(room).value()) taken.push_back(done);
  EXPECT_EQ(taken.size(), count);
  return taken;
}

/// One side: a queue pair with its own completion queues.
struct side {
  completion_queue sends;
  completion_queue receives;
  queue_pair<rc> queue;
};

/// Two connected queue pairs of one context, with all access flags.
class loopback {
 public:
  explicit loopback(queue_pair_options<rc> options = default_options())
      : context_(open_device("soft0").value()), pd_(context_.allocate_pd().value()) {
    auto cqs = std::array{context_.create_cq(256).value(), context_.create_cq(256).value(),
                          context_.create_cq(256).value(), context_.create_cq(256).value()};
    auto first = pd_.create_qp<rc>(cqs[0], cqs[1], options).value();
    auto second = pd_.create_qp<rc>(cqs[2], cqs[3], options).value();
    const auto to_first = first.endpoint();
    const auto to_second = second.endpoint();
    sides_.push_back({cqs[0], cqs[1], std::move(first).handshake(to_second).value()});
    sides_.push_back({cqs[2], cqs[3], std::move(second).handshake(to_first).value()});
  }

  static queue_pair_options<rc> default_options() {
    return {.queues = {.max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64},
            .access = access::remote_read | access::remote_write | access::remote_atomic};
  }

  [[nodiscard]] const verbena::context& context() const { return context_; }
  [[nodiscard]] const protection_domain& pd() const { return pd_; }
  [[nodiscard]] side& a() { return sides_[0]; }
  [[nodiscard]] side& b() { return sides_[1]; }

  [[nodiscard]] memory_region memory(std::size_t bytes) const {
    return pd_
        .allocate(bytes, access::local_write | access::remote_read | access::remote_write |
                             access::remote_atomic)
        .value();
  }

 private:
  verbena::context context_;
  protection_domain pd_;
  std::vector<side> sides_;
};

/// The two interfaces for posting; tests run once for each.
struct classic {
  template <class Use>
  static decltype(auto) with(queue_pair<rc>& queue, Use&& use) {
    return use(queue);
  }
};
struct extended {
  template <class Use>
  static decltype(auto) with(queue_pair<rc>& queue, Use&& use) {
    auto poster = queue.extended().value();
    return use(poster);
  }
};
using both_interfaces = ::testing::Types<classic, extended>;

}  // namespace verbena::test
