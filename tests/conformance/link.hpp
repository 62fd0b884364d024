// SPDX-License-Identifier: MIT
// Connected queue pairs of the device under test, with memory and completion queues. iWARP devices
// connect them by the connection manager, other devices by a handshake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena::conformance {

/// The completion queues of a queue pair. Threads: one thread at a time.
struct queues {
  completion_queue sends;
  completion_queue receives;
};

/// One end of a connection. Threads: one thread at a time.
struct side {
  completion_queue sends;
  completion_queue receives;
  queue_pair<rc> queue;
};

/// Makes connected queue pairs on one open device. Threads: one thread at a time.
class connector {
 public:
  connector() = default;
  connector(const connector&) = delete;
  connector& operator=(const connector&) = delete;
  virtual ~connector() = default;

  [[nodiscard]] virtual const verbena::context& context() const = 0;
  [[nodiscard]] virtual const protection_domain& pd() const = 0;

  struct end {
    queues into;
    queue_pair_options<rc> options;
    const shared_receive_queue* receives_from = nullptr;
  };
  struct ends {
    queue_pair<rc> first;
    queue_pair<rc> second;
  };
  /// Connects two new queue pairs. On iWARP the first queue pair must send first.
  [[nodiscard]] virtual ends connect(const end& first, const end& second) = 0;
};

/// Creates the queue pair of one end in the reset state.
[[nodiscard]] inline prepared_queue_pair<rc> prepare(const protection_domain& pd,
                                                     const connector::end& of,
                                                     const queue_pair_options<rc>& options) {
  if (of.receives_from == nullptr)
    return pd.create_qp<rc>(of.into.sends, of.into.receives, options).value();
  return pd.create_qp<rc>(of.into.sends, of.into.receives, *of.receives_from, options).value();
}

/// Creates the connector of the device under test.
[[nodiscard]] std::unique_ptr<connector> make_connector();
/// Creates the connector of iWARP (iwarp_connector.cpp).
[[nodiscard]] std::unique_ptr<connector> make_iwarp_connector();

/// One queue pair that is connected to itself, or two queue pairs.
enum class topology : std::uint8_t { self, pair };

/// Returns options with all access flags and four slices per request.
[[nodiscard]] queue_pair_options<rc> default_options();
[[nodiscard]] access_flags all_access();

struct link_options {
  topology shape = topology::pair;
  queue_pair_options<rc> initiator = default_options();
  queue_pair_options<rc> target = default_options();
  std::uint32_t completions = 256;
  bool with_channel = false;  ///< one channel for the completion queues of both sides
};

/// A connection. Each side has one completion queue for sends and one for receives. Threads: one
/// thread at a time.
class link {
 public:
  explicit link(const link_options& options);

  [[nodiscard]] const verbena::context& context() const { return connector_->context(); }
  [[nodiscard]] const protection_domain& pd() const { return connector_->pd(); }
  [[nodiscard]] side& initiator() { return sides_.front(); }
  [[nodiscard]] side& target() { return sides_.back(); }
  [[nodiscard]] const completion_channel& channel() const { return *channel_; }

  /// Allocates zeroed memory.
  [[nodiscard]] memory_region memory(std::size_t bytes, access_flags access = all_access()) const;

 private:
  [[nodiscard]] queues make_queues(std::uint32_t capacity) const;

  std::unique_ptr<connector> connector_;
  std::optional<completion_channel> channel_;
  std::vector<side> sides_;
};

}  // namespace verbena::conformance
