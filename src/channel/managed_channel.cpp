// SPDX-License-Identifier: MIT
// Connects and reconnects channels with the connection manager.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "src/channel/connect.hpp"
#include "src/channel/connection_record.hpp"
#include "src/channel/unconnected_channel.hpp"
#include "verbena/channel/prepared_channel.hpp"
#include "verbena/channel/reconnection.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/cm/listener.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Sets the private data to the resume token if the program has no private data.
cm::connection_options introduced(cm::connection_options options,
                                  std::span<const std::byte> resume_token) {
  if (options.private_data.empty()) options.private_data = resume_token;
  return options;
}

// Returns the resume token at the beginning of private data, which transports pad with zeros.
// Returns nullopt for other private data of the program.
std::optional<resume_token> resume_token_in(std::span<const std::byte> said) {
  auto peer_token =
      resume_token::decode(said.first(std::min(said.size(), resume_token::encoded_size)));
  return peer_token ? std::optional(*peer_token) : std::nullopt;
}

// Checks the port of a connection: the channel uses route.port to describe failures and to
// reconnect.
result<void> check_port(const cm::pending_connection& peer, port_number chosen) {
  if (chosen == peer.port()) return {};
  return error::invalid_argument(
      "prepared_channel::connect", "port " + std::to_string(peer.port().value()),
      "the connection uses this port, but route.port of the channel is " +
          std::to_string(chosen.value()) +
          "; set route.port to port() of the connector or connection_request");
}

// Ends the receives of a channel whose connection attempt failed. The queue pair has been destroyed
// before.
class unconnected {
 public:
  explicit unconnected(detail::channel_core* const& core) noexcept : core_(core) {}
  unconnected(const unconnected&) = delete;
  unconnected& operator=(const unconnected&) = delete;
  ~unconnected() {
    if (code_ != 0 && core_ != nullptr) core_->lose(code_);
  }
  void fail(int code) noexcept { code_ = code; }
  void succeed() noexcept { code_ = 0; }

 private:
  detail::channel_core* const& core_;
  int code_ = ECANCELED;
};

// Connects a queue pair as the active side.
struct requesting {
  cm::connector& peer;
  port_number port;
  deadline until;

  steps<cm::connection> operator()(prepared_queue_pair<rc> queue, cm::connection_options options,
                                   cm::receive_poster post_receives) {
    VERBENA_CO_TRY_VOID(check_port(peer, port));
    co_return co_await peer.connect_in_steps(std::move(queue), options, until, post_receives);
  }
};
// Connects a queue pair as the passive side.
struct accepting {
  cm::connection_request request;
  port_number port;
  deadline until;

  steps<cm::connection> operator()(prepared_queue_pair<rc> queue, cm::connection_options options,
                                   cm::receive_poster post_receives) {
    // If a step fails from here on, the request is rejected.
    auto taken = std::move(request);
    VERBENA_CO_TRY_VOID(check_port(taken, port));
    co_return co_await std::move(taken).accept_in_steps(std::move(queue), options, until,
                                                        post_receives);
  }
};

}  // namespace

// Calls `prepare`, which posts receives before the connection is established. The channel owns the
// queue pair while `prepare` runs. Then the channel gives up the queue pair, which is connected
// next; take_over() returns it to the channel.
result<void> channel::lend(queue_pair<rc>& to_be_connected, channel_preparation prepare) {
  auto posted = prepare ? prepare(*this) : result<void>();
  auto& lent = core().qp();
  VERBENA_ASSERT(lent,
                 "a channel_preparation moved or closed the channel: it may only post receives");
  to_be_connected = std::move(*std::exchange(lent, std::nullopt));
  return posted;
}

std::optional<resume_token> channel::take_over(cm::connection&& connected) {
  auto kept = std::make_shared<cm::connection>(std::move(connected));
  core().qp().emplace(kept->take_qp());
  auto peer_token = resume_token_in(kept->peer_private_data());
  core().record().book.meet(peer_token);
  core().keep(std::move(kept));
  return peer_token;
}

// g++ 12 warns about the frame of this coroutine.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

template <class Bring>
steps<channel> prepared_channel::manage(prepared_channel self, cm::connection_options options,
                                        kept_channel_preparation prepare, Bring bring_up) {
  channel made(nullptr);
  unconnected attempt(made.core_);
  const auto bytes = self.resume_token_.encode();
  const auto post_receives = [&](queue_pair<rc>& queue) {
    made = std::move(self).with(std::move(queue), {});
    return made.lend(queue, prepare ? channel_preparation(prepare) : channel_preparation());
  };
  auto connected = co_await bring_up(std::move(self.queue_), introduced(options, bytes),
                                     cm::receive_poster(post_receives));
  if (!connected) {
    attempt.fail(connected.error().code());
    co_return std::move(connected).error();
  }
  attempt.succeed();
  made.take_over(*std::move(connected));
  co_return std::move(made);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

template <class Bring>
result<reconnection> channel::reconnect_managed(const cm::connection_options& options,
                                                channel_preparation prepare, Bring&& bring_up) {
  core().disconnect();
  const auto before = failure() != nullptr ? std::optional(*failure()) : std::nullopt;
  // The connection manager selects the path.
  VERBENA_TRY(auto queue, detail::prepare_queue_again(core(), {}));
  const auto who = core().record().book.next();
  const auto bytes = who.encode();
  const auto post_receives = [&](queue_pair<rc>& made) {
    core().record().book.begin(who.self.connection);
    core().connect_again(std::move(made));
    return lend(made, prepare);
  };
  auto connected = bring_up(std::move(queue), introduced(options, bytes), post_receives);
  if (!connected) {
    core().stay_apart(connected.error().code(), before);
    return std::move(connected).error();
  }
  const auto peer_token = take_over(*std::move(connected));
  return reconnection(core(), peer_token);
}

result<channel> prepared_channel::connect(cm::connector& peer,
                                          const cm::connection_options& options, deadline until,
                                          channel_preparation prepare) && {
  return std::move(*this).connect_in_steps(peer, options, until, prepare).wait();
}

steps<channel> prepared_channel::connect_in_steps(cm::connector& peer,
                                                  const cm::connection_options& options,
                                                  deadline until,
                                                  kept_channel_preparation prepare) && {
  const port_number port = options_.route.port;
  return manage(std::move(*this), options, std::move(prepare),
                requesting{.peer = peer, .port = port, .until = until});
}

result<channel> prepared_channel::accept(cm::connection_request&& request,
                                         const cm::connection_options& options, deadline until,
                                         channel_preparation prepare) && {
  return std::move(*this).accept_in_steps(std::move(request), options, until, prepare).wait();
}

steps<channel> prepared_channel::accept_in_steps(cm::connection_request&& request,
                                                 const cm::connection_options& options,
                                                 deadline until,
                                                 kept_channel_preparation prepare) && {
  const port_number port = options_.route.port;
  return manage(std::move(*this), options, std::move(prepare),
                accepting{.request = std::move(request), .port = port, .until = until});
}

result<reconnection> channel::reconnect(cm::connector& peer, const cm::connection_options& options,
                                        deadline until, channel_preparation prepare) {
  VERBENA_TRY_VOID(detail::check_reconnectable("channel::reconnect", core()));
  return reconnect_managed(
      options, prepare,
      [&](prepared_queue_pair<rc>&& queue, const auto& with, const auto& post_receives) {
        return peer.connect(std::move(queue), with, until, post_receives);
      });
}

result<reconnection> channel::accept_reconnect(cm::connection_request&& request,
                                               const cm::connection_options& options,
                                               deadline until, channel_preparation prepare) {
  VERBENA_TRY_VOID(detail::check_reconnectable("channel::accept_reconnect", core()));
  return reconnect_managed(
      options, prepare,
      [&](prepared_queue_pair<rc>&& queue, const auto& with, const auto& post_receives) {
        return std::move(request).accept(std::move(queue), with, until, post_receives);
      });
}

}  // namespace verbena::inline VERBENA_ABI
