// SPDX-License-Identifier: MIT
// Closes connections that neither side uses. A channel without operations in flight gives its queue
// pair back to the pair_table, and takes it again at its next operation. If the table still has the
// queue pair later, the channel has not used it, and the peer is asked to close the connection.
#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/earliest.hpp"
#include "src/net/channel_access.hpp"
#include "src/net/peer_connector.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

constexpr bool is_end(close_answer of) {
  return of == close_answer::closed || of == close_answer::unknown;
}

}  // namespace

bool peer_connector::detach(const connected_pair& which) {
  auto& core = channel_access::core_of((*channels_)[which.peer]);
  // The number differs if the program has reconnected the channel.
  if (!core.is_idle() || core.qp()->native()->qp_num != which.queue.value()) return false;
  pairs_.detach(which.peer, {.share = std::move(shares_[which.peer]),
                             .queue = core.release_idle(shared_from_this(), which.peer)});
  return true;
}

result<close_answer> peer_connector::close(std::uint32_t peer, deadline until) {
  auto closing = pairs_.begin_closing(peer);
  if (!closing) return fail(peer, EAGAIN, "is connecting to this rank, or is changing its members");
  // If this fails, the destructor of `closing` keeps the queue pair.
  VERBENA_TRY(const auto answer, peer == rank_ ? result<close_answer>(close_answer::closed)
                                               : ask_to_close(peer, *closing, until));
  closing->end(answer);
  return answer;
}

result<close_answer> peer_connector::ask_to_close(std::uint32_t peer, pair_closing& as,
                                                  deadline until) const {
  const rank_contact& to = contacts_[peer];
  auto with = bringup::stream::connect(to.acceptor, until, {.stream = small_messages});
  // The process of the peer has ended.
  if (!with && with.error().is(std::errc::connection_refused)) return close_answer::unknown;
  if (!with) return std::move(with).error();
  as.send();
  VERBENA_TRY_VOID(with->send(encode(close_request{.token = to.token,
                                                   .rank = rank_,
                                                   .epoch = epoch_,
                                                   .local = as.local(),
                                                   .number = as.number()}),
                              until));
  VERBENA_TRY(const auto bytes, with->receive(until));
  return decode_close_answer(bytes);
}

std::uint32_t peer_connector::close_idle(deadline until) {
  if (channels_ == nullptr) return 0;
  auto pairs = pairs_.connected();
  // If the time ends, the next call begins with the pairs that were left out.
  std::ranges::rotate(pairs,
                      std::ranges::lower_bound(pairs, first_to_close_, {}, &connected_pair::peer));
  std::uint32_t count = 0;
  for (const auto& each : pairs) {
    if (each.is_used && !detach(each)) continue;
    if (!each.is_marked) {
      pairs_.mark(each.peer);
      continue;
    }
    // If the program of the peer uses the connection, that peer asks when it no longer does.
    if (each.peer_uses && !each.is_doubtful) continue;
    if (until.expired()) {
      first_to_close_ = each.peer;
      break;
    }
    const auto closed = close(each.peer, verbena::detail::earliest(until, time_to_close_));
    if (closed && is_end(*closed)) ++count;
  }
  return count;
}

bool peer_connector::make_room(deadline until) {
  // More than one, so that not each new connection has to close another one first.
  constexpr std::uint32_t most_to_close = 2;
  // A channel that is used again before the next call keeps its connection then.
  constexpr std::uint32_t most_to_detach = 8;
  if (channels_ == nullptr) return false;
  std::uint32_t closed = 0;
  std::vector<bool> is_asked(pairs_.size());
  while (true) {
    auto pairs = pairs_.connected();
    std::ranges::sort(pairs, {}, &connected_pair::last_use);
    std::uint32_t detached = 0;
    for (auto& each : pairs) {
      if (!each.is_used || detached == most_to_detach || !detach(each)) continue;
      each.is_used = false;
      ++detached;
    }
    std::erase_if(pairs, &connected_pair::is_used);
    std::ranges::sort(pairs, {}, [](const connected_pair& each) {
      return std::tuple(each.is_doubtful, each.peer_uses, each.last_use);
    });
    for (const auto& each : pairs) {
      if (is_asked[each.peer]) continue;
      if (until.expired()) return closed != 0;
      is_asked[each.peer] = true;
      const auto answer = close(each.peer, verbena::detail::earliest(until, time_to_close_));
      if (answer && is_end(*answer)) ++closed;
      if (closed == most_to_close) return true;
    }
    if (closed != 0 || detached == 0) return closed != 0;
  }
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
