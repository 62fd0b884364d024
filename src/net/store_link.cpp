// SPDX-License-Identifier: MIT
#include "src/net/store_link.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include "src/base/call_or_else.hpp"
#include "src/base/earliest.hpp"
#include "src/bringup/peer_errors.hpp"
#include "src/bringup/socket.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// The minimum time for the store to read a request.
constexpr std::chrono::seconds time_for_request{2};
// The time limit for the last messages of the store after a failed send. They have usually arrived.
constexpr std::chrono::milliseconds time_for_last{100};
// The time limit for the greeting of a store after the end of a connection.
constexpr std::chrono::seconds time_to_greet{2};
constexpr std::chrono::seconds time_between_greetings{2};
// A host without an answer for this time has failed: that of detect_failed_host().
constexpr std::chrono::seconds time_of_silence{25};

// Receives the next message. If the deadline passes, returns nullopt. The rest of the message is
// received by later calls, at any time, so the connection remains usable.
result<std::optional<store_message>> receive_until(store_link& link, deadline until) {
  while (true) {
    if (!link.receiving) {
      pollfd event{.fd = link.stream.fd(), .events = POLLIN, .revents = 0};
      if (::poll(&event, 1, until.poll_timeout_ms()) <= 0) {
        if (until.expired()) return std::optional<store_message>();
        continue;
      }
      link.begin_receive();
    }
    if (auto received = link.receiving->progress()) {
      link.receiving.reset();
      if (!*received) return link.lose(std::move(*received).error());
      link.is_in_message = false;
      auto message = decode_message(**received);
      if (!message) return link.lose(std::move(message).error());
      return std::optional(*std::move(message));
    }
    if (until.expired()) return std::optional<store_message>();
    pollfd event{.fd = link.receiving->fd(), .events = link.receiving->events(), .revents = 0};
    ::poll(&event, 1, until.poll_timeout_ms());
  }
}

// Receives messages until an answer that this rank waits for. If this rank waits for no answer,
// completes a partial message and receives an abandoned answer. Returns nullopt if there is no
// answer, or if the deadline passes.
result<std::optional<store_answer>> receive_reply(store_link& link, deadline until) {
  while (link.is_expecting()) {
    VERBENA_TRY(auto next, receive_until(link, until));
    if (!next) break;
    auto is_news = link.take_news(*next);
    if (!is_news.has_value()) return link.lose(std::move(is_news).error());
    if (!*is_news) return std::optional(std::move(next->what));
  }
  return std::optional<store_answer>();
}

// After a failed send, receives the messages that have arrived, until the last one.
void receive_last(store_link& link) {
  const auto until = deadline::after(time_for_last);
  while (!link.failure && !link.last_answer) {
    const auto next = receive_until(link, until);
    if (!next || !*next) return;
    auto is_news = link.take_news(**next);
    if (!is_news.has_value()) {
      static_cast<void>(link.lose(std::move(is_news).error()));
    } else if (!*is_news) {
      link.keep_last((*next)->what);
    }
  }
}

// Returns true if TCP has received no packet of the host, or the network reports that no route to
// the host exists.
bool is_of_silent_host(const error& why) {
  return why.kind() == error_kind::os &&
         (why.code() == ETIMEDOUT || why.code() == EHOSTUNREACH || why.code() == ENETUNREACH);
}

// Returns whether a store runs, according to another connection to it.
store_state state_after(const result<bringup::stream>& greeted, store_link& link) {
  if (greeted) return store_state::runs;
  const error& why = greeted.error();
  // A process that does not run accepts no connections: the host refuses or resets them.
  if (why.kind() == error_kind::os && (why.code() == ECONNREFUSED || why.code() == ECONNRESET))
    return store_state::ended;
  if (!is_of_silent_host(why) && why.call() != "connect") {
    // The kernel of the host has accepted the connection, but the store was too slow, or its
    // process is stopped.
    link.silent_at = deadline::after(time_of_silence);
  }
  return link.silent_at.expired() ? store_state::silent : store_state::unknown;
}

// Connects to the store again until the deadline, or, if it passes, continues in the next call.
void continue_greeting(store_link& link, deadline until) {
  while (link.greeting) {
    std::optional<result<bringup::stream>> greeted;
    // Without memory, the state stays unknown.
    verbena::detail::call_or_else([&] { greeted = link.greeting->progress(); },
                                  [&] { link.greeting.reset(); });
    if (greeted) {
      link.greeting.reset();
      link.conclude(state_after(*greeted, link));
      link.next_greeting = link.state == store_state::unknown
                               ? deadline::after(time_between_greetings)
                               : deadline::never();
    }
    if (!link.greeting || until.expired()) return;
    pollfd event{.fd = link.greeting->fd(), .events = link.greeting->events(), .revents = 0};
    ::poll(&event, 1,
           verbena::detail::earliest(until, link.greeting->next_deadline()).poll_timeout_ms());
  }
}

// Returns true if the store closes the connection after the message.
bool is_last(const store_answer& message) {
  const auto* const failed = std::get_if<store_failed>(&message);
  return failed != nullptr && failed->why == store_failure::expelled;
}

// Returns the error of an exchange after an exchange or agreement that succeeded only on the other
// ranks.
error fail_missed(const store_link& link) {
  const auto& [number, what, name] = *link.missed;
  const auto text =
      what == asked::kind::exchange
          ? fmt::format(
                "the deadline of exchange(\"{}\") passed on this rank, but the exchange "
                "succeeded on the other ranks",
                name)
          : fmt::format(
                "the deadline of {}() passed on this rank, but the other ranks continue "
                "with {}()",
                name, name);
  return error::timed_out("exchange", to_text(link.who),
                          text + "; call group::shrink() on all ranks");
}

// Returns the error of a call after the store has closed the connection with a reason.
error explain_refusal(std::string_view call, const store_link& link) {
  std::string_view reason = link.failure->diagnosis();
  if (reason.starts_with(bringup::detail::refusal_prefix))
    reason.remove_prefix(bringup::detail::refusal_prefix.size());
  const std::string& at = link.stream.peer();
  if (!link.is_admitted)
    return error::from_errno(
        ECONNREFUSED, std::string(call), to_text(link.who),
        fmt::format("the store at {} has closed the connection of this process, which had not "
                    "joined its group yet: {}",
                    at, reason));
  return error::protocol(
      std::string(call), to_text(link.who),
      fmt::format("the store at {} has closed the connection of this rank: {}", at, reason));
}

// Returns true for the answers to a hello and to a proof.
bool is_of_entry(const store_answer& message) {
  return std::holds_alternative<blobs>(message) || std::holds_alternative<store_failed>(message) ||
         std::holds_alternative<store_challenge>(message);
}

}  // namespace

std::string to_text(const membership& who) {
  return who.name.empty() ? fmt::format("rank {}", who.rank)
                          : fmt::format("rank {} of group {}", who.rank, who.name);
}

store_link::store_link(bringup::stream with, const membership& of)
    : stream(std::move(with)), who(of), address(of.store) {
  // The socket has no peer any more after some failures.
  if (auto peer = bringup::detail::peer_address_of(stream.fd())) address = *std::move(peer);
  bringup::detail::detect_failed_host(stream.fd());
}

result<bool> store_link::take_news(const store_message& from) {
  if (const auto* const reply = std::get_if<store_reply>(&from.what))
    return reply->number == 0 || reply->number != awaited;
  if (const auto* const left = std::get_if<store_left>(&from.what)) {
    for (const std::uint32_t each : left->ranks) {
      std::erase(returning, each);
      add(each, departed);
    }
    return true;
  }
  if (const auto* const back = std::get_if<store_returned>(&from.what)) {
    for (const std::uint32_t each : back->ranks) {
      add(each, departed);
      add(each, returning);
    }
    return true;
  }
  if (from.number == 0 && (is_last(from.what) || (awaits_entry && is_of_entry(from.what))))
    return false;
  if (from.number != 0 && from.number == awaited) return false;
  if (from.number != 0 && abandoned && from.number == abandoned->number) {
    const bool has_failed = std::holds_alternative<store_failed>(from.what);
    if (abandoned->what == asked::kind::agreement) {
      // If the agreement is outdated, the other ranks have begun another one.
      if (!has_failed || std::get<store_failed>(from.what).why == store_failure::outdated)
        is_behind = true;
      is_agreement_open = is_behind;
    }
    if (!has_failed) missed = std::move(abandoned);
    abandoned.reset();
    return true;
  }
  const auto text = [&] {
    if (from.number == 0) return std::string("an answer without the number of a request");
    return fmt::format("an answer to request {}", from.number);
  };
  return error::protocol(
      "receive", stream.peer(),
      fmt::format("the store sent {}, which this rank does not expect; the last request of this "
                  "rank is {}; check that the address is that of a store of this version",
                  text(), last_number));
}

void store_link::keep_last(const store_answer& answer) {
  if (is_last(answer)) last_answer = std::get<store_failed>(answer);
}

void store_link::add(std::uint32_t each, std::vector<std::uint32_t>& to) const {
  if (each < who.size && each != who.rank && std::ranges::find(to, each) == to.end())
    to.push_back(each);
}

void store_link::begin_receive() {
  is_in_message = bringup::detail::has_bytes(stream.fd());
  receiving.emplace(stream.receive_in_steps(deadline::never()));
}

void store_link::conclude(store_state found) {
  state = found;
  const bool has_ended = state == store_state::ended || state == store_state::silent;
  if (has_ended && who.host == store_host::rank_0) add(0, departed);
}

error store_link::lose(error why) {
  failure = why;
  if (is_of_silent_host(why) && is_admitted) {
    // The store may run: TCP also ends a connection whose peer does not read for this time.
    silent_at = deadline::after(std::chrono::seconds(0));
    begin_greeting();
    return why;
  }
  if (why.code() != ECONNRESET || is_in_message) return why;
  silent_at = deadline::after(time_of_silence);
  if (is_admitted) {
    // The store sends no reason to a rank that has left earlier messages unread.
    begin_greeting();
  } else {
    conclude(store_state::ended);
  }
  return why;
}

void store_link::begin_greeting() {
  greeting.emplace(bringup::stream::connect_in_steps(address, deadline::after(time_to_greet)));
}

error explain_failure(std::string_view call, const store_link& link) {
  const error& why = *link.failure;
  if (why.kind() == error_kind::protocol) return why;
  const std::string& at = link.stream.peer();
  if (why.code() == ECONNABORTED) return explain_refusal(call, link);
  const auto text = [&] {
    if (why.code() == ECONNRESET && link.is_in_message)
      return fmt::format(
          "the connection to the store at {} has ended in the middle of a message: the process of "
          "the store{} has ended, or the store has disconnected this rank, which did not read the "
          "message for a long time (store_options::unread_timeout of the store)",
          at, link.who.host == store_host::rank_0 ? ", rank 0," : "");
    if (link.state == store_state::runs)
      return fmt::format(
          "the store at {} has closed the connection of this rank, but still runs: this rank has "
          "probably not read an answer for a long time; see the log of the store, call functions "
          "of the group more often, or raise store_options::max_unread_bytes or unread_timeout of "
          "the store; a new process of this rank can call group::rejoin()",
          at);
    if (link.state == store_state::silent)
      return fmt::format(
          "the connection to the store at {} has ended, because its host{} has not answered for "
          "{} s or more: the host has probably failed, or is not reachable any more; check the "
          "host and the network{}",
          at, link.who.host == store_host::rank_0 ? ", that of rank 0," : "",
          time_of_silence.count(),
          link.who.host == store_host::rank_0
              ? "; rank 0 counts as departed; to continue without rank 0, use a separate store "
                "(verbena launch or verbena store)"
              : "");
    if (link.state != store_state::ended && why.code() == ECONNRESET)
      return fmt::format(
          "the connection to the store at {} has ended, but another connection was neither greeted "
          "nor refused in time, so that the process of the store{} may still run; check the "
          "network "
          "between the hosts, and the load of the host of the store",
          at, link.who.host == store_host::rank_0 ? ", rank 0," : "");
    if (link.state != store_state::ended)
      return fmt::format(
          "the connection to the store at {} has failed, but the process of the store{} has "
          "probably not ended; check the network between the hosts, and the load of the host of "
          "the store",
          at, link.who.host == store_host::rank_0 ? ", rank 0," : "");
    if (link.who.host != store_host::rank_0)
      return fmt::format(
          "the connection to the store at {} has ended; check that the process of the store, for "
          "example verbena store or verbena launch, still runs",
          at);
    if (link.who.rank == 0)
      return fmt::format("the connection to the store of this process at {} has ended", at);
    return fmt::format(
        "the connection to the store at {}, in the process of rank 0, has ended: rank 0{} has "
        "probably ended or destroyed its group, and the store with it; to continue without rank 0, "
        "use a separate store (verbena launch or verbena store)",
        at, link.has_rank_0 ? "" : ", which is no longer a member,");
  };
  return {why.kind(), why.code(), std::string(call), to_text(link.who),
          text() + ": " + why.message()};
}

void receive_news(store_link& link) {
  while (!link.failure && !link.last_answer) {
    if (!link.receiving) {
      pollfd event{.fd = link.stream.fd(), .events = POLLIN, .revents = 0};
      if (::poll(&event, 1, 0) <= 0) break;
      link.begin_receive();
    }
    auto received = link.receiving->progress();
    if (!received) break;
    link.receiving.reset();
    if (*received) link.is_in_message = false;
    auto news = *received ? decode_message(**received)
                          : result<store_message>(std::move(*received).error());
    if (!news) {
      static_cast<void>(link.lose(std::move(news).error()));
      break;
    }
    auto is_news = link.take_news(*news);
    if (!is_news.has_value()) {
      static_cast<void>(link.lose(std::move(is_news).error()));
      break;
    }
    if (*is_news) continue;
    // No call waits for an answer, so the message is the last one of the store.
    link.keep_last(news->what);
  }
  // The host may not have answered because it was busy.
  if (!link.greeting && link.next_greeting.expired())
    verbena::detail::call_or_else([&] { link.begin_greeting(); }, [] {});
  continue_greeting(link, deadline::at(deadline::clock::time_point::min()));
}

namespace {

result<std::optional<store_answer>> ask_until(store_link& link, const asked& what,
                                              encode_request encode, deadline until) {
  // A message with the reason why the store closes the connection must be received before the send,
  // because a stream cannot receive after a failed send.
  receive_news(link);
  if (link.last_answer) return std::optional(store_answer(*link.last_answer));
  if (link.failure) return *link.failure;
  VERBENA_TRY(auto early, receive_reply(link, until));
  if (early) link.keep_last(*early);
  // The store applies the time limit of a request, so a request without time is not sent.
  if (early || link.is_expecting() || until.expired()) return early;
  if (what.what == asked::kind::exchange && link.missed) return fail_missed(link);
  link.last_number = std::max(link.last_number + 1, std::uint32_t{1});
  // The message contains the rest of the time.
  const auto request = encode(link.last_number);
  if (request.size() > link.max_message_bytes)
    return error::invalid_argument(
        std::string(what.call), to_text(link.who),
        fmt::format("a message of {} bytes exceeds the limit of the store, {} bytes; raise "
                    "store_options::max_message_bytes of the store or exchange less",
                    request.size(), link.max_message_bytes));
  const bool is_agreement = what.what == asked::kind::agreement;
  if (is_agreement) link.is_agreement_open = true;
  const auto end_of_send = std::max(until.when(), deadline::after(time_for_request).when());
  if (auto sent = link.stream.send(request, deadline::at(end_of_send)); !sent) {
    // The store may have sent its reason to close the connection.
    receive_last(link);
    if (link.last_answer) return std::optional(store_answer(*link.last_answer));
    if (link.failure) return *link.failure;
    link.is_in_message = false;
    return link.lose(std::move(sent).error());
  }
  link.awaits_entry = what.what == asked::kind::entry;
  if (!link.awaits_entry) link.awaited = link.last_number;
  auto reply = receive_reply(link, until);
  const auto awaited = std::exchange(link.awaited, 0);
  link.awaits_entry = false;
  const bool is_late = reply && !*reply;
  if (is_late && (is_agreement || what.what == asked::kind::exchange))
    link.abandoned = {
        .number = awaited,
        .what = what.what,
        .name = std::string(what.what == asked::kind::exchange ? what.name : what.call)};
  if (!reply || !*reply) return reply;
  const bool has_agreed = std::holds_alternative<store_agreed>(**reply);
  if (is_agreement) link.is_agreement_open = link.is_behind = link.is_behind && !has_agreed;
  link.keep_last(**reply);
  if (has_agreed) link.missed.reset();
  return reply;
}

}  // namespace

result<std::optional<store_answer>> ask_store(store_link& link, const asked& what,
                                              encode_request encode, deadline until) {
  auto answer = ask_until(link, what, encode, until);
  continue_greeting(link, until);
  return answer;
}

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(store_link& link) noexcept { delete &link; }

}  // namespace verbena::inline VERBENA_ABI::net::detail
