// SPDX-License-Identifier: MIT
// Connects a channel or a message channel of two processes, over a TCP stream or with the
// connection manager, as the active or the passive side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tests/unit/channel/tested_device.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/prepared_message_channel.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::test {

enum class connect_method : std::uint8_t { stream, manager };
enum class connect_side : std::uint8_t { active, passive };

/// One side of a channel, and the remote region of the other side.
struct channel_side {
  protection_domain pd;
  buffer_pool pool;
  memory_region region;
  channel over;
  remote_region theirs;

  static result<channel_side> connect_by_stream(bringup::stream with, deadline until);
  static result<channel_side> connect_by_manager(cm::connector& peer, deadline until);
  static result<channel_side> accept_by_manager(cm::connection_request request, deadline until);
};

/// One side of a message channel with small windows, so that credits run out, and its pool.
struct message_channel_side {
  protection_domain pd;
  buffer_pool pool;
  message_channel over;

  static result<message_channel_side> connect_by_stream(bringup::stream with, deadline until);
  static result<message_channel_side> connect_by_manager(cm::connector& peer, deadline until);
  static result<message_channel_side> accept_by_manager(cm::connection_request request,
                                                        deadline until);
};

/// The listener of the passive side. It exists before the active side has its address.
class side_listener {
 public:
  explicit side_listener(connect_method way) {
    if (way == connect_method::stream) {
      stream_.emplace(bringup::listener::open({.host = "127.0.0.1"}).value());
    } else {
      manager_.emplace();
      listener_.emplace(manager_->open());
    }
  }
  [[nodiscard]] std::uint16_t port() const { return stream_ ? stream_->port() : listener_->port(); }
  /// Accepts the next peer before the deadline and connects. `Side` is one of the two side types.
  template <class Side>
  [[nodiscard]] result<Side> accept(deadline until, deadline connected) {
    if (stream_) {
      VERBENA_TRY(auto with, stream_->accept(until));
      return Side::connect_by_stream(std::move(with), connected);
    }
    VERBENA_TRY(auto request, listener_->accept(until));
    return Side::accept_by_manager(std::move(request), connected);
  }

 private:
  std::optional<bringup::listener> stream_;
  std::optional<tested_manager> manager_;
  std::optional<cm::listener> listener_;
};

/// Connects to the passive side at `port`.
template <class Side>
result<Side> connect_to(connect_method way, std::uint16_t port, deadline until) {
  if (way == connect_method::stream) {
    VERBENA_TRY(auto with, bringup::stream::connect({.host = "127.0.0.1", .port = port}, until));
    return Side::connect_by_stream(std::move(with), until);
  }
  const tested_manager manager;
  VERBENA_TRY(auto peer, manager.resolve(port, until));
  return Side::connect_by_manager(peer, until);
}

namespace detail {

struct own_objects {
  protection_domain pd;
  buffer_pool pool;
  memory_region region;
};

inline result<own_objects> make_objects(const context& of) {
  VERBENA_TRY(auto pd, of.allocate_pd());
  VERBENA_TRY(auto pool, buffer_pool::create(pd, {.classes = {{.bytes = 256, .count = 32}}}));
  VERBENA_TRY(auto region, pd.allocate(8192, access::local_write | access::remote_read |
                                                 access::remote_write | access::remote_atomic));
  return own_objects{std::move(pd), std::move(pool), std::move(region)};
}

inline channel_options options_of_side() {
  return {.queues = {.max_send_wr = 16, .max_recv_wr = 16},
          .access = access::remote_read | access::remote_write | access::remote_atomic};
}

inline channel_side assemble(own_objects own, channel over, const remote_region& theirs) {
  return {std::move(own.pd), std::move(own.pool), std::move(own.region), std::move(over), theirs};
}

/// The parts of a message channel, and the prepared channel.
struct prepared_for_messages {
  protection_domain pd;
  buffer_pool pool;
  prepared_message_channel prepared;

  static result<prepared_for_messages> make(const context& of) {
    VERBENA_TRY(auto pd, of.allocate_pd());
    VERBENA_TRY(auto pool, buffer_pool::create(pd, {.classes = {{.bytes = 256, .count = 12}}}));
    const message_channel_options options{.message_bytes = 256,
                                          .queues = {.max_send_wr = 8, .max_recv_wr = 8},
                                          .credits = credits::required};
    VERBENA_TRY(auto prepared, message_channel::prepare(pd, pool, options));
    return prepared_for_messages{std::move(pd), std::move(pool), std::move(prepared)};
  }
};

}  // namespace detail

inline result<channel_side> channel_side::connect_by_stream(bringup::stream with, deadline until) {
  VERBENA_TRY(auto own, detail::make_objects(open_tested()));
  VERBENA_TRY(auto prepared, own.pd.create_channel(detail::options_of_side()));
  VERBENA_TRY(auto over, std::move(prepared).connect(with, until));
  VERBENA_TRY(const auto received, with.exchange(own.region.remote().encode(), until));
  VERBENA_TRY(const auto theirs, remote_region::decode(received));
  return detail::assemble(std::move(own), std::move(over), theirs);
}

inline result<channel_side> channel_side::connect_by_manager(cm::connector& peer, deadline until) {
  VERBENA_TRY(const auto device, peer.context());
  VERBENA_TRY(auto own, detail::make_objects(device));
  VERBENA_TRY(auto prepared, own.pd.create_channel(detail::options_of_side()));
  const auto mine = own.region.remote().encode();
  VERBENA_TRY(auto over, std::move(prepared).connect(peer, {.private_data = mine}, until));
  const auto received = over.connection()->peer_private_data();
  VERBENA_TRY(const auto theirs,
              remote_region::decode(received.first(remote_region::encoded_size)));
  return detail::assemble(std::move(own), std::move(over), theirs);
}

inline result<channel_side> channel_side::accept_by_manager(cm::connection_request request,
                                                            deadline until) {
  VERBENA_TRY(const auto device, request.context());
  VERBENA_TRY(auto own, detail::make_objects(device));
  VERBENA_TRY(auto prepared, own.pd.create_channel(detail::options_of_side()));
  VERBENA_TRY(const auto theirs,
              remote_region::decode(request.private_data().first(remote_region::encoded_size)));
  const auto mine = own.region.remote().encode();
  VERBENA_TRY(auto over,
              std::move(prepared).accept(std::move(request), {.private_data = mine}, until));
  return detail::assemble(std::move(own), std::move(over), theirs);
}

inline result<message_channel_side> message_channel_side::connect_by_stream(bringup::stream with,
                                                                            deadline until) {
  VERBENA_TRY(auto own, detail::prepared_for_messages::make(open_tested()));
  VERBENA_TRY(auto over, std::move(own.prepared).connect(with, until));
  return message_channel_side{std::move(own.pd), std::move(own.pool), std::move(over)};
}

inline result<message_channel_side> message_channel_side::connect_by_manager(cm::connector& peer,
                                                                             deadline until) {
  VERBENA_TRY(const auto device, peer.context());
  VERBENA_TRY(auto own, detail::prepared_for_messages::make(device));
  VERBENA_TRY(auto over, std::move(own.prepared).connect(peer, until));
  return message_channel_side{std::move(own.pd), std::move(own.pool), std::move(over)};
}

inline result<message_channel_side> message_channel_side::accept_by_manager(
    cm::connection_request request, deadline until) {
  VERBENA_TRY(const auto device, request.context());
  VERBENA_TRY(auto own, detail::prepared_for_messages::make(device));
  VERBENA_TRY(auto over, std::move(own.prepared).accept(std::move(request), until));
  return message_channel_side{std::move(own.pd), std::move(own.pool), std::move(over)};
}

}  // namespace verbena::test
