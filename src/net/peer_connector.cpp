// SPDX-License-Identifier: MIT
#include "src/net/peer_connector.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "src/base/earliest.hpp"
#include "src/net/rendezvous.hpp"
#include "verbena/base/random.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

using verbena::detail::earliest;

// The pauses between attempts to connect.
constexpr retry_pauses::range pauses_to_connect{.first = std::chrono::milliseconds(1),
                                                .longest = std::chrono::milliseconds(250)};

// The time limit of one attempt, and of the reply to a confirmation, even if the deadline of the
// operation is earlier. A new attempt detects that the process of the peer has ended.
constexpr std::chrono::seconds time_of_attempt{2};

}  // namespace

peer_connector::peer_connector(const place& at, pair_maker maker, const first_use_options& options)
    : rank_(at.rank),
      timeout_(options.timeout),
      time_to_close_(at.time_to_close),
      maker_(std::move(maker)),
      seed_(options.seed.value_or(random_u64())),
      shares_(at.size),
      pairs_(at.rank, at.size, options.max_accepting) {
  fill_random(token_);
}

result<std::shared_ptr<peer_connector>> peer_connector::start(const place& at, pair_maker maker,
                                                              const first_use_options& options) {
  const auto refuse = [&](const char* why) {
    return error::invalid_argument("join", fmt::format("rank {}", at.rank), why);
  };
  if (options.max_accepting == 0)
    return refuse("first_use_options::max_accepting is 0: no peer could connect; set at least 1");
  if (options.timeout <= std::chrono::nanoseconds(0))
    return refuse("first_use_options::timeout is not positive: no operation could connect");
  VERBENA_TRY(auto listener,
              open_resolved({.host = at.host}, at.until, [](const bringup::address& each) {
                return bringup::listener::open(each, {.streams = small_messages});
              }));
  if (is_wildcard(listener.local_address().host))
    return error::invalid_argument(
        "join", fmt::format("rank {}", at.rank),
        fmt::format("first_use_options::host is {}, which peers cannot connect to; set an address "
                    "of this host",
                    at.host));
  unique_fd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return error::from_errno(errno, "eventfd", fmt::format("rank {}", at.rank));
  auto made = std::make_shared<peer_connector>(at, std::move(maker), options);
  made->acceptor_.emplace(connection_acceptor::parts{.listener = std::move(listener),
                                                     .stop = std::move(stop),
                                                     .maker = made->maker_,
                                                     .pairs = made->pairs_,
                                                     .token = made->token_,
                                                     .max_accepting = options.max_accepting});
  made->local_ = made->acceptor_->local_address();
  VERBENA_TRY_VOID(made->acceptor_->start());
  return made;
}

rank_contact peer_connector::contact(const remote_region& board) const {
  return {.board = board, .token = token_, .acceptor = local_};
}

void peer_connector::open(std::uint32_t epoch, std::span<const std::uint32_t> members) {
  epoch_ = epoch;
  pairs_.open(epoch, members);
}

void peer_connector::end() {
  acceptor_.reset();
  channels_ = nullptr;
  for (std::uint32_t each = 0; each < shares_.size(); ++each) pairs_.remove(each);
}

void peer_connector::forget(std::uint32_t peer) {
  pairs_.forget(peer);
  shares_[peer] = {};
}

void peer_connector::remove(std::uint32_t peer) {
  pairs_.remove(peer);
  shares_[peer] = {};
}

error peer_connector::fail(std::uint32_t peer, int code, const std::string& why) const {
  return error::from_errno(code, "connect on first use", fmt::format("rank {}", rank_),
                           fmt::format("rank {} {}", peer, why));
}

error peer_connector::no_room_here(std::uint32_t peer) const {
  return fail(peer, ENOBUFS,
              fmt::format("cannot be connected: the budget of this process, {} queue pairs, is in "
                          "use, and no connection is idle on both sides; raise the limit of the "
                          "queue_pair_budget",
                          maker_.budget->limit()));
}

result<void> peer_connector::connect(verbena::detail::channel_core& which, std::uint32_t peer,
                                     deadline until) {
  const auto limit = until.is_never() ? deadline::after(timeout_) : until;
  if (peer == rank_) return connect_to_self(which, limit);
  retry_pauses pauses(pauses_to_connect, seed_ + peer);
  std::optional<error> last;
  while (true) {
    auto turn = pairs_.wait_for_turn(peer, limit);
    if (!turn.is_member) return fail(peer, ENOTCONN, "is not a member of the group");
    if (turn.made) {
      take(which, peer, std::move(turn));
      return {};
    }
    if (turn.is_doubtful && !limit.expired()) {
      const auto closed = close(peer, earliest(limit, time_to_close_));
      if (closed && *closed != close_answer::other_epoch) continue;
      last = closed ? fail(peer, EAGAIN, rejection_text({.what = connection_answer::other_epoch}))
                    : closed.error();
    }
    if (turn.request && !limit.expired()) {
      auto asked = ask(peer, *turn.request, earliest(limit, time_of_attempt));
      auto* const made = std::get_if<made_pair>(&asked);
      if (made != nullptr) turn.request->succeed(made->ends);
      turn.request.reset();
      if (made != nullptr) {
        install(which, peer, std::move(*made));
        return {};
      }
      auto& failed = std::get<failed_attempt>(asked);
      if (failed.has_no_room && make_room(limit)) continue;
      if (failed.is_final) return std::move(failed.why);
      last = std::move(failed.why);
    }
    turn.request.reset();
    if (limit.expired()) {
      auto late = error::timed_out("connect on first use", fmt::format("rank {}", rank_),
                                   fmt::format("rank {} was not connected in time", peer));
      return last ? std::move(late).with_diagnosis("the last attempt: " + last->message()) : late;
    }
    pairs_.pause(peer, earliest(limit, pauses.next()));
  }
}

result<void> peer_connector::connect_to_self(verbena::detail::channel_core& which, deadline until) {
  if (!acceptor_) return fail(rank_, ENOTCONN, "has left its group");
  if (pairs_.has_made(rank_)) {  // detached
    auto turn = pairs_.wait_for_turn(rank_, until);
    if (!turn.made) return fail(rank_, ENOTCONN, "is not a member of the group");
    take(which, rank_, std::move(turn));
    return {};
  }
  VERBENA_TRY(auto mine, maker_.make());
  for (retry_pauses pauses(pauses_to_connect, seed_ + rank_); !mine;) {
    if (make_room(until)) {
      VERBENA_TRY(mine, maker_.make());
      if (mine) break;
    }
    if (!pairs_.has_other_requests(rank_) || until.expired()) return no_room_here(rank_);
    // A request in progress may fail and return its share of the budget.
    pairs_.pause(rank_, earliest(until, pauses.next()));
    VERBENA_TRY(mine, maker_.make());
  }
  const auto self = mine->queue.endpoint();
  VERBENA_TRY(auto made, unmade_pair::connect(*std::move(mine), self));
  pairs_.end_asking(rank_, made.ends);
  install(which, rank_, std::move(made));
  return {};
}

void peer_connector::install(verbena::detail::channel_core& which, std::uint32_t peer,
                             made_pair made) {
  which.connect_first(std::move(made.queue));
  shares_[peer] = std::move(made.share);
}

void peer_connector::take(verbena::detail::channel_core& which, std::uint32_t peer,
                          pair_table::turn turn) {
  if (!turn.was_used) return install(which, peer, *std::move(turn.made));
  which.connect_same(std::move(turn.made->queue));
  shares_[peer] = std::move(turn.made->share);
}

peer_connector::attempt peer_connector::ask(std::uint32_t peer, const pair_request& as,
                                            deadline until) {
  auto mine = maker_.make();
  if (!mine) return failed_attempt{.why = std::move(mine).error(), .is_final = true};
  if (!*mine)
    return failed_attempt{.why = no_room_here(peer),
                          .is_final = !pairs_.has_other_requests(peer),
                          .has_no_room = true};
  return ask(peer, as, **std::move(mine), until);
}

peer_connector::attempt peer_connector::ask(std::uint32_t peer, const pair_request& as,
                                            unmade_pair mine, deadline until) {
  const auto try_again = [](error why) {
    return failed_attempt{.why = std::move(why), .is_final = false};
  };
  const rank_contact& to = contacts_[peer];
  auto with = bringup::stream::connect(to.acceptor, until, {.stream = small_messages});
  if (!with && with.error().is(std::errc::connection_refused))
    return failed_attempt{
        .why = fail(peer, ECONNREFUSED,
                    fmt::format("has ended or left the group: no process listens at {}",
                                to_string(to.acceptor))),
        .is_final = true};
  if (!with) return try_again(std::move(with).error());
  const auto request = encode(connect_request{
      .token = to.token, .rank = rank_, .epoch = epoch_, .local = mine.queue.endpoint()});
  if (auto sent = with->send(request, until); !sent) return try_again(std::move(sent).error());
  as.count();
  const auto bytes = with->receive(until);
  if (!bytes) return try_again(bytes.error());
  const auto answer = decode_connect_answer(*bytes);
  if (!answer) return try_again(answer.error());
  if (!answer->local) return explain(peer, *answer);
  auto made = unmade_pair::connect(std::move(mine), *answer->local);
  if (!made) return failed_attempt{.why = std::move(made).error(), .is_final = true};
  auto confirmed = with->send(encode_confirmation(), until);
  if (!confirmed) return try_again(std::move(confirmed).error());
  // The peer may have connected its side already. If this side gave up now, the pair would be half
  // connected.
  const auto last = with->receive(deadline::after(time_of_attempt));
  if (!last) return try_again(last.error());
  if (auto checked = check_confirmation(*last); !checked)
    return try_again(std::move(checked).error());
  return *std::move(made);
}

peer_connector::failed_attempt peer_connector::explain(std::uint32_t peer,
                                                       const connect_answer& why) const {
  const bool is_final = why.what == connection_answer::no_room;
  return {.why = fail(peer, is_final ? ENOBUFS : EAGAIN, rejection_text(why)),
          .is_final = is_final};
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
