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

// Calls `revert` with an errno unless the connection attempt succeeds, also if the program's
// preparation throws. The queue pair has been destroyed before.
template <class Revert>
class connection_attempt {
 public:
  explicit connection_attempt(Revert revert) noexcept : revert_(std::move(revert)) {}
  connection_attempt(const connection_attempt&) = delete;
  connection_attempt& operator=(const connection_attempt&) = delete;
  ~connection_attempt() {
    if (!is_connected_) revert_(code_);
  }
  // Returns `why`, whose errno `revert` receives.
  [[nodiscard]] error fail(error why) noexcept {
    code_ = why.code();
    return why;
  }
  void succeed() noexcept { is_connected_ = true; }

 private:
  Revert revert_;
  int code_ = ECANCELED;  // 0 if the error has no errno
  bool is_connected_ = false;
};

// Returns the queue pair at the end, also if the program's preparation throws.
class queue_release {
 public:
  queue_release(detail::channel_core& core, queue_pair<rc>& to) : core_(core), to_(to) {
    core_.prepare_release();
  }
  queue_release(const queue_release&) = delete;
  queue_release& operator=(const queue_release&) = delete;
  ~queue_release() {
    if (core_.qp()) to_ = core_.release_for_connect();
  }

 private:
  detail::channel_core& core_;
  queue_pair<rc>& to_;
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
result<void> channel::release_for_connect(queue_pair<rc>& to_be_connected,
                                          channel_preparation prepare) {
  const queue_release released(core(), to_be_connected);
  auto posted = prepare ? prepare(*this) : result<void>();
  VERBENA_ASSERT(core_ != nullptr && core().qp(),
                 "a channel_preparation moved or closed the channel: it may only post receives");
  return posted;
}

result<std::optional<resume_token>> channel::take_over(cm::connection&& connected) {
  auto kept = std::make_shared<cm::connection>(std::move(connected));
  VERBENA_TRY_VOID(core().take_back(kept->take_qp()));
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
  connection_attempt attempt([&made](int code) {
    if (made.core_ != nullptr) made.core_->lose_released(code);
  });
  const auto bytes = self.resume_token_.encode();
  const auto post_receives = [&](queue_pair<rc>& queue) {
    made = std::move(self).with(std::move(queue), {});
    return made.release_for_connect(queue,
                                    prepare ? channel_preparation(prepare) : channel_preparation());
  };
  auto connected = co_await bring_up(std::move(self.queue_), introduced(options, bytes),
                                     cm::receive_poster(post_receives));
  if (!connected) co_return attempt.fail(std::move(connected).error());
  if (auto taken = made.take_over(*std::move(connected)); !taken)
    co_return attempt.fail(std::move(taken).error());
  attempt.succeed();
  co_return std::move(made);
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

template <class Bring>
result<reconnection> channel::reconnect_managed(const cm::connection_options& options,
                                                channel_preparation prepare, Bring&& bring_up) {
  core().disconnect();
  connection_attempt attempt(
      [&core = core(), before = failure() != nullptr ? std::optional(*failure()) : std::nullopt](
          int code) { core.stay_apart(code, before); });
  // The connection manager selects the path.
  VERBENA_TRY(auto queue, detail::prepare_queue_again(core(), {}));
  const auto who = core().record().book.next();
  const auto bytes = who.encode();
  const auto post_receives = [&](queue_pair<rc>& made) {
    core().record().book.begin(who.self.connection);
    core().connect_again(std::move(made));
    return release_for_connect(made, prepare);
  };
  auto connected = bring_up(std::move(queue), introduced(options, bytes), post_receives);
  if (!connected) return attempt.fail(std::move(connected).error());
  auto peer_token = take_over(*std::move(connected));
  if (!peer_token) return attempt.fail(std::move(peer_token).error());
  attempt.succeed();
  return reconnection(core(), *peer_token);
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
