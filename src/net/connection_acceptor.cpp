// SPDX-License-Identifier: MIT
#include "src/net/connection_acceptor.hpp"

#include <span>
#include <utility>
#include <vector>

#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

connection_acceptor::connection_acceptor(parts of)
    : maker_(std::move(of.maker)),
      pairs_(of.pairs),
      token_(of.token),
      time_for_request_(of.time_for_request),
      // Requests beyond max_accepting are answered with `busy`; connections beyond twice that
      // number wait in the backlog.
      acceptor_({.listener = std::move(of.listener),
                 .stop = std::move(of.stop),
                 .most_sessions = std::size_t{of.max_accepting} * 2,
                 .request = "a request to connect on first use",
                 .serve = [this](bringup::stream peer, bool& is_silent) {
                   return serve(std::move(peer), is_silent);
                 }}) {}

steps<void> connection_acceptor::serve(bringup::stream peer, bool& is_silent) {
  const auto until = deadline::after(time_for_request_);
  VERBENA_CO_TRY(const auto request, co_await peer.receive_in_steps(until));
  is_silent = false;
  if (is_close_request(request)) {
    auto closed = close(request);
    if (!closed) co_return malformed(std::move(closed).error(), peer);
    co_return co_await peer.send_in_steps(*closed, until);
  }
  auto taken = take(request);
  if (!taken) co_return malformed(std::move(taken).error(), peer);
  const auto answer = encode(taken->answer);
  VERBENA_CO_TRY_VOID(co_await peer.send_in_steps(answer, until));
  if (!taken->claim) co_return {};
  VERBENA_CO_TRY(const auto confirmation, co_await peer.receive_in_steps(until));
  VERBENA_CO_TRY_VOID(check_confirmation(confirmation));
  // The peer uses its queue pair only after it has received this confirmation.
  if (!taken->claim->publish(*std::exchange(taken->made, std::nullopt))) co_return {};
  auto sent = co_await peer.send_in_steps(confirmation, until);
  if (!sent) taken->claim->withdraw();
  co_return sent;
}

error connection_acceptor::malformed(error why, const bringup::stream& peer) {
  pairs_.count_malformed();
  return std::move(why).with_diagnosis("sent by " + peer.peer());
}

result<void> connection_acceptor::check_sender(const connection_token& token,
                                               std::uint32_t rank) const {
  if (are_equal(token, token_) && rank < pairs_.size()) return {};
  return error::protocol("connect", {},
                         "the token or the rank of the request is wrong: the sender is not a "
                         "rank of this group; check that no other program uses this port");
}

result<std::vector<std::byte>> connection_acceptor::close(std::span<const std::byte> request) {
  VERBENA_TRY(const auto wanted, decode_close_request(request));
  VERBENA_TRY_VOID(check_sender(wanted.token, wanted.rank));
  return encode(pairs_.answer_close(wanted));
}

result<connection_acceptor::accepted_request> connection_acceptor::take(
    std::span<const std::byte> request) {
  VERBENA_TRY(const auto wanted, decode_connect_request(request));
  VERBENA_TRY_VOID(check_sender(wanted.token, wanted.rank));
  accepted_request out;
  auto claimed = pairs_.claim(wanted.rank, wanted.epoch);
  out.answer.what = claimed.why_not;
  if (!claimed.claim) return out;
  auto made = maker_.make();
  if (made && !*made) {
    // Another request may hold the share that is missing, and may return it.
    out.answer = {.what = pairs_.has_other_requests(wanted.rank) ? connection_answer::busy
                                                                 : connection_answer::no_room,
                  .limit = maker_.budget->limit()};
    return out;
  }
  if (made) {
    const auto local = (*made)->queue.endpoint();
    auto connected = unmade_pair::connect(**std::move(made), wanted.local);
    if (connected) {
      out.answer = {.what = connection_answer::accepted, .local = local};
      out.made = *std::move(connected);
      out.claim.emplace(*std::move(claimed.claim));
      return out;
    }
    log(log_level::warning, connected.error().message());
  } else {
    log(log_level::warning, made.error().message());
  }
  out.answer.what = connection_answer::failed;
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
