// SPDX-License-Identifier: MIT
#include "src/net/store_server.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "src/base/call_or_else.hpp"
#include "src/base/quiet_thread.hpp"
#include "src/bringup/socket.hpp"
#include "src/net/joining_exchanges.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// The time limit for each MiB of a message to a client that is not admitted, and for the messages
// in progress when the store ends.
constexpr std::chrono::seconds time_to_send{2};
// The time limit for the rest of a message that an expelled rank is sending.
constexpr std::chrono::seconds time_to_finish{5};
// The pause after an accept failure, for example if no descriptor is free.
constexpr std::chrono::milliseconds time_to_retry{100};
// The pause after a failed allocation, in milliseconds.
constexpr int pause_without_memory = 10;

// The listener and the event of the destructor.
constexpr std::size_t events_without_sessions = 2;

// Returns true if the client can be informed now about ranks that have left or returned.
bool has_news(const store_session& of) {
  return of.group != nullptr && of.informed != of.group->changes && !of.sending && !of.receiving;
}

}  // namespace

short store_session::events() const noexcept {
  if (sending) return sending->events();
  return receiving ? receiving->events() : static_cast<short>(POLLIN);
}

store_server::store_server(bringup::listener listener, unique_fd stop, const store_options& options)
    : listener_(std::move(listener)),
      local_(listener_.local_address()),
      stop_(std::move(stop)),
      options_(options) {}

result<void> store_server::start() {
  events_.reserve(events_without_sessions);
  const auto body = [](void* self) -> void* {
    static_cast<store_server*>(self)->run();
    return nullptr;
  };
  if (const int code = verbena::detail::start_quiet_thread(thread_, body, this, "verbena-store");
      code != 0)
    return error::from_errno(code, "pthread_create", to_string(local_));
  is_started_ = true;
  return {};
}

store_server::~store_server() {
  if (!is_started_) return;
  stopping_.store(true);
  const std::uint64_t one = 1;
  static_cast<void>(::write(stop_.get(), &one, sizeof one));
  ::pthread_join(thread_, nullptr);
}

store_statistics store_server::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void store_server::run() {
  deadline last = deadline::never();
  while (true) {
    if (stopping_.load() && last.is_never()) last = deadline::after(time_to_send);
    if (stopping_.load() &&
        (last.expired() || std::ranges::none_of(sessions_, [](const auto& each) {
           return each.sending.has_value();
         })))
      return;
    if (!stopping_.load() && !attempt([&] { accept(); })) accepting_.reset();
    wait();
    for (auto next = sessions_.begin(); next != sessions_.end();) {
      const auto client = next++;
      bool is_open = false;
      if (!attempt([&] { is_open = advance(*client); }) || client->is_exhausted) {
        count([](auto& of) { ++of.refused; });
        note_exhausted(*client);
        is_open = false;
      }
      if (!is_open) close(client);
    }
    // If an allocation fails, these are repeated after the pause.
    static_cast<void>(attempt([&] { drop_silent(); }));
    static_cast<void>(attempt([&] { drop_unread(); }));
    for (auto next = groups_.begin(); next != groups_.end();)
      if (auto& group = *next++; group.is_unsettled) settle(group);
    expire();
  }
}

bool store_server::attempt(function_ref<void()> what) noexcept {
  bool has_succeeded = true;
  verbena::detail::call_or_else(what, [&] {
    has_succeeded = false;
    has_failed_to_allocate_ = true;
  });
  return has_succeeded;
}

void store_server::accept() {
  while (accepts_from_ = next_place(), accepts_from_.expired()) {
    if (!accepting_) accepting_.emplace(listener_.accept_in_steps(deadline::never()));
    auto accepted = accepting_->progress();
    if (!accepted) return;
    accepting_.reset();
    if (!*accepted) {
      log(log_level::warning, accepted->error().message());
      return;
    }
    count([](auto& of) { ++of.accepted; });
    has_new_session_ = true;
    // wait() must not allocate.
    if (const auto needed = sessions_.size() + 1 + events_without_sessions;
        events_.capacity() < needed)
      events_.reserve(2 * needed);
    sessions_.emplace_back(**std::move(accepted), options_.listener);
    // Without TCP_USER_TIMEOUT: a rank may leave an answer unread for any time.
    bringup::detail::probe_idle_host(sessions_.back().stream.fd());
  }
}

void store_server::wait() {
  const bool must_repeat = std::exchange(has_failed_to_allocate_, false);
  if (must_repeat) ::poll(nullptr, 0, pause_without_memory);
  events_.clear();
  events_.push_back({.fd = stopping_.load() ? -1 : stop_.get(), .events = POLLIN, .revents = 0});
  const bool can_accept = accepting_ && accepts_from_.expired();
  events_.push_back({.fd = can_accept ? accepting_->fd() : -1, .events = POLLIN, .revents = 0});
  for (const auto& each : sessions_)
    events_.push_back({.fd = each.stream.fd(), .events = each.events(), .revents = 0});
  // After a new connection, returns immediately, so that drop_silent() can close silent ones.
  auto until = std::exchange(has_new_session_, false) ? deadline::after(std::chrono::seconds(0))
                                                      : next_deadline();
  if (can_accept) until = earliest(until, accepting_->next_deadline());
  if (!accepts_from_.expired()) until = earliest(until, accepts_from_);
  if (!accepting_ || stopping_.load()) until = earliest(until, deadline::after(time_to_retry));
  const int timeout = must_repeat ? 0 : until.poll_timeout_ms();
  const int found = ::poll(events_.data(), events_.size(), timeout);
  auto next = events_.begin() + events_without_sessions;
  for (auto& each : sessions_) each.ready = found > 0 ? (next++)->revents : short{0};
}

deadline store_server::next_deadline() const noexcept {
  deadline until = deadline::never();
  for (const auto& each : sessions_) {
    until = earliest(until, each.until);
    if (each.sending) until = earliest(until, each.sending->next_deadline());
    if (each.sending && !each.read_by.expired()) until = earliest(until, each.read_by);
    if (has_news(each)) until = deadline::after(std::chrono::nanoseconds(0));
  }
  for (const auto& group : groups_)
    until =
        earliest(earliest(until, group.values.first_end()), earliest(group.until, group.first_end));
  return until;
}

bool store_server::advance(store_session& of) {
  if (of.sending) {
    if ((of.ready & POLLOUT) != 0) of.read_by = deadline::after(options_.unread_timeout);
    auto sent = of.sending->progress();
    if (!sent) {
      const bool is_late = of.group == nullptr && of.until.expired();
      if (is_late) note_end(of.stream, "it did not read a message in time");
      return !is_late;
    }
    of.sending.reset();
    if (!*sent) {
      note_end(of.stream, sent->error().diagnosis());
      return false;
    }
    if (!of.next_answer && of.group == nullptr && !of.unproved) return false;  // it was rejected
  }
  if (!of.receiving) {
    if (send_next(of)) return true;
    const bool is_readable = (std::exchange(of.ready, short{0}) & ~POLLOUT) != 0;
    if (!is_readable) {
      const bool is_late = of.group == nullptr && of.until.expired();
      if (is_late) drop_late(of);
      return !is_late;
    }
    if (const auto* const place = of.group != nullptr ? &of.group->ranks[of.rank] : nullptr;
        place != nullptr && (place->parts || place->agreement)) {
      // The client waits for an answer. Input is a disconnect or a protocol violation.
      if (bringup::detail::has_bytes(of.stream.fd()))
        note_violation(of.stream, "it sent data during an exchange");
      else
        note_departure(of);
      return false;
    }
    of.receiving.emplace(of.stream.receive_in_steps(of.until));
  }
  const bool is_expelled = of.group == nullptr && of.next_answer;
  auto received = of.receiving->progress();
  if (!received) {
    // The rest of the message does not arrive, so the reason is sent before it.
    if (is_expelled && of.until.expired()) {
      of.until = deadline::after(time_to_send);
      return send_next(of);
    }
    return true;
  }
  of.receiving.reset();
  if (is_expelled && *received) return send_next(of);
  if (*received) return take(of, **received);
  const error& why = received->error();
  if (of.group == nullptr && why.kind() == error_kind::timed_out)
    drop_late(of);
  else if (why.code() == ECONNRESET)
    note_departure(of);
  else if (why.kind() == error_kind::protocol)
    note_violation(of.stream, why.diagnosis());
  else
    note_end(of.stream, why.message());
  return false;
}

bool store_server::send_next(store_session& to) {
  if (to.next_answer) {
    send(to, *std::exchange(to.next_answer, std::nullopt));
    return true;
  }
  const auto news = has_news(to) ? to.group->next_news(to.informed) : std::nullopt;
  if (news) send(to, *news);
  return news.has_value();
}

bool store_server::take(store_session& from, const blob& message) {
  auto request = decode_request(message);
  if (!request) {
    count([](auto& of) { ++of.refused; });
    note_violation(from.stream, request.error().diagnosis());
    return false;
  }
  // A new request ends a pending find request of the rank.
  if (from.group != nullptr) from.group->values.stop_waiting(from.rank);
  if (auto* const hello = std::get_if<store_hello>(&*request);
      hello != nullptr && from.group == nullptr && !from.unproved) {
    greet(from, std::move(*hello));
  } else if (auto* const exchange = std::get_if<store_exchange>(&*request);
             exchange != nullptr && from.group != nullptr &&
             from.group->ranks[from.rank].is_present()) {
    contribute(from, std::move(*exchange));
  } else if (auto* const agreement = std::get_if<store_agreement>(&*request);
             agreement != nullptr && from.group != nullptr) {
    agree(from, std::move(*agreement));
  } else if (const auto* const proof = std::get_if<store_proof>(&*request);
             proof != nullptr && from.unproved) {
    check_proof(from, *proof);
  } else if (const auto* const check = std::get_if<store_check>(&*request);
             check != nullptr && from.group != nullptr) {
    answer(from, encode(store_reply{.number = check->number, .value = {}}));
  } else if (!use_values(from, *request)) {
    count([](auto& of) { ++of.refused; });
    note_violation(from.stream, "it sent an unexpected message");
    return false;
  }
  return true;
}

bool store_server::use_values(store_session& from, store_request& request) {
  if (from.group == nullptr || !from.group->ranks[from.rank].is_present()) return false;
  store_group& group = *from.group;
  if (auto* const publish = std::get_if<store_publish>(&request)) {
    deliver(group, group.values.publish(from.rank, std::move(*publish)));
    return true;
  }
  if (const auto* const withdraw = std::get_if<store_withdraw>(&request)) {
    deliver(group, group.values.withdraw(from.rank, *withdraw));
    return true;
  }
  auto* const find = std::get_if<store_find>(&request);
  if (find == nullptr || find->rank >= group.size()) return false;
  const std::uint32_t asked = find->rank;
  deliver(group, group.values.find(from.rank, std::move(*find)));
  if (group.ranks[asked].has_left()) deliver(group, group.values.remove(asked));
  if (group.agreeing != 0) deliver(group, group.values.interrupt(group.agreeing_members().front()));
  return true;
}

void store_server::deliver(store_group& in, const published_values::due_replies& due) noexcept {
  for (const auto& each : due)
    answer_or_close(*in.ranks[each.to].session, [&] { return encode(each.reply); });
}

void store_server::contribute(store_session& from, store_exchange exchange) {
  store_group& group = *from.group;
  auto& place = group.ranks[from.rank];
  from.number = exchange.number;
  if (group.agreeing != 0 && !group.failure)
    fail(group, {.why = store_failure::interrupted,
                 .ranks = group.agreeing_members(),
                 .name = exchange.name});
  if (group.failure) return answer_request(from, *group.failure);
  if (exchange.parts.size() != 1 && exchange.parts.size() != group.size()) {
    fail(group, {.why = store_failure::wrong_parts,
                 .ranks = {from.rank},
                 .name = std::move(exchange.name)});
    return answer_request(from, *group.failure);
  }
  if (group.is_exchanging() && group.exchange != exchange.name) {
    auto others = group.ranks_that([](const auto& each) { return each.parts.has_value(); });
    fail(group, {.why = store_failure::other_name,
                 .rank = from.rank,
                 .ranks = std::move(others),
                 .name = std::move(exchange.name)});
    return answer_request(from, *group.failure);
  }
  group.exchange = std::move(exchange.name);
  place.parts = std::move(exchange.parts);
  ++group.arrived;
  const auto until = deadline::after(std::chrono::milliseconds(exchange.timeout_ms));
  if (until.when() < group.until.when()) {
    group.until = until;
    group.hurried = from.rank;
  }
  if (group.arrived == group.members) return complete(group);
  if (auto gone = group.departed_members(); !gone.empty())
    fail(group, {.why = store_failure::gone, .ranks = std::move(gone), .name = group.exchange});
}

template <class PartsOf, class BytesOf, class Encode>
std::optional<std::uint32_t> store_server::answer_all(store_group& of,
                                                      std::span<const std::uint32_t> ranks,
                                                      PartsOf&& parts_of, BytesOf&& bytes_of,
                                                      Encode&& encode) {
  part_list parts(ranks.size());
  const auto select = [&](std::uint32_t to) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const blobs& all = parts_of(of.ranks[ranks[i]]);
      parts[i] = all[all.size() == 1 ? 0 : to];
    }
  };
  const bool is_for_all = std::ranges::all_of(
      ranks, [&](std::uint32_t each) { return parts_of(of.ranks[each]).size() == 1; });
  for (const std::uint32_t to : is_for_all ? ranks.first(1) : ranks) {
    select(to);
    if (bytes_of(parts) + bytes_of_number > options_.max_message_bytes) return to;
  }
  // A message for all ranks is encoded before the first answer. Without memory, no rank is
  // answered.
  const blob for_all = is_for_all ? encode(parts) : blob();
  for (const std::uint32_t to : ranks) {
    store_session& session = *of.ranks[to].session;
    if (is_for_all) {
      answer_request(session, for_all);
      continue;
    }
    answer_or_close(session, [&] {
      select(to);
      return encode_numbered(session.number, encode(parts));
    });
  }
  return std::nullopt;
}

void store_server::complete(store_group& of) {
  const auto members = of.ranks_that([](const auto& each) { return each.is_member; });
  const auto with_places = [&](const part_list& parts) {
    part_list all(of.size());  // an empty part: not a member
    for (std::size_t i = 0; i < members.size(); ++i) all[members[i]] = parts[i];
    return all;
  };
  const auto too_large = answer_all(
      of, members, [](const auto& each) -> const blobs& { return *each.parts; },
      [&](const part_list& parts) { return done_bytes(with_places(parts)); },
      [&](const part_list& parts) { return encode_done(with_places(parts)); });
  if (too_large)
    return fail(of, {.why = store_failure::too_large, .ranks = {*too_large}, .name = of.exchange});
  // A rank can still fail before the last exchange of join(). The group then forms again.
  if (!is_before_last_of_join(of.exchange)) of.has_formed = true;
  of.arrived = 0;
  of.until = deadline::never();
  count([](auto& statistics) { ++statistics.exchanges; });
  for (const std::uint32_t each : members) of.ranks[each].parts.reset();
}

void store_server::fail(store_group& of, store_failed why) noexcept {
  of.failure = std::move(why);
  count([](auto& statistics) { ++statistics.failures; });
  of.arrived = 0;
  of.until = deadline::never();
  for (auto& each : of.ranks) {
    if (!std::exchange(each.parts, std::nullopt)) continue;
    if (each.session != nullptr) answer_request(*each.session, *of.failure);
  }
}

void store_server::expire() noexcept {
  // If an allocation fails, the deadlines are handled after the pause.
  for (auto& group : groups_) {
    if (!group.until.expired()) continue;
    const auto has_not_arrived = [](const auto& each) { return each.is_member && !each.parts; };
    static_cast<void>(attempt([&] {
      fail(group, {.why = store_failure::missing,
                   .rank = group.hurried,
                   .ranks = group.ranks_that(has_not_arrived),
                   .name = group.exchange});
    }));
  }
  for (auto& group : groups_)
    static_cast<void>(attempt([&] {
      if (group.first_end.expired()) expire_agreements(group);
      deliver(group, group.values.expire());
    }));
}

void store_server::answer(store_session& to, blob message) {
  // Destroying steps in progress would close the stream, so the answer is sent afterwards.
  if (to.sending || to.receiving)
    to.next_answer = std::move(message);
  else
    send(to, message);
}

void store_server::answer_or_close(store_session& to, function_ref<blob()> encode) noexcept {
  if (!attempt([&] { answer(to, encode()); })) to.is_exhausted = true;
}

void store_server::answer_request(store_session& to, std::span<const std::byte> message) noexcept {
  answer_or_close(to, [&] { return encode_numbered(to.number, message); });
}

void store_server::answer_request(store_session& to, const store_failed& why) noexcept {
  answer_or_close(to, [&] { return encode_numbered(to.number, encode(why)); });
}

void store_server::send(store_session& to, const blob& message) {
  // A rank reads only in its calls. After an abandoned request, it may compute for any time before
  // it reads the answer. Other clients that do not read within the time limit are disconnected.
  const auto mebibytes = static_cast<std::int64_t>(message.size() >> 20U) + 1;
  const auto until =
      to.group != nullptr ? deadline::never() : deadline::after(time_to_send * mebibytes);
  to.bytes_in_sending = message.size();
  to.read_by = deadline::after(options_.unread_timeout);
  to.sending.emplace(to.stream.send_in_steps(message, until));  // the steps copy the bytes
}

void store_server::agree(store_session& from, store_agreement wanted) {
  store_group& group = *from.group;
  auto& place = group.ranks[from.rank];
  from.number = wanted.number;
  const store_failed refusal{.rank = from.rank, .ranks = {from.rank}, .name = wanted.name};
  const auto refuse_because = [&](store_failure why) {
    auto with = refusal;
    with.why = why;
    answer_request(from, with);
  };
  if (wanted.parts.size() != 1 && wanted.parts.size() != group.size())
    return refuse_because(store_failure::wrong_parts);
  // A late step of a renewal that has failed or was superseded.
  if (wanted.renewal != 0 && wanted.renewal != group.renewal)
    return refuse_because(store_failure::outdated);
  if (place.waits && group.has_ended)
    return answer_request(from, without_members(std::move(wanted.name)));
  if (!place.waits) {
    if (group.is_exchanging())
      fail(group, {.why = store_failure::interrupted,
                   .ranks = {from.rank},
                   .name = std::string(group.exchange)});
    const auto* const others = group.current();
    if (others != nullptr && others->renewal != wanted.renewal) {
      // The first agreement of a new renewal supersedes the steps of another renewal.
      if (wanted.renewal != 0) return refuse_because(store_failure::outdated);
      auto with = refusal;
      with.why = store_failure::outdated;
      with.name = others->name;
      fail_agreement(group, with);
    } else if (others != nullptr && others->name != wanted.name) {
      // A rank whose agreement failed has restarted the renewal, so the others must restart it too.
      auto with = refusal;
      with.why = store_failure::other_name;
      with.ranks = group.agreeing_members();
      fail_agreement(group, with);
      return answer_request(from, with);
    }
    deliver(group, group.values.interrupt(from.rank));
  }
  group.begin_agreement(from.rank, std::move(wanted));
  try_conclude(group);
}

void store_server::try_conclude(store_group& of) {
  if (of.is_agreed()) conclude(of);
}

void store_server::conclude(store_group& of) {
  const std::string name = of.current()->name;
  const bool begins = of.current()->renewal == 0;
  const auto included = of.ranks_that([with = of.current()](const auto& each) {
    return each.session != nullptr && each.agreement && is_same_step(*each.agreement, *with);
  });
  if (begins) of.begin_renewal();
  const auto too_large = answer_all(
      of, included, [](const auto& each) -> const blobs& { return each.agreement->parts; },
      [&](const part_list& parts) { return agreed_bytes(included, parts); },
      [&](const part_list& parts) { return encode_agreed(of.renewal, included, parts); });
  if (too_large)
    return fail_agreement(of,
                          {.why = store_failure::too_large, .ranks = {*too_large}, .name = name});
  for (const std::uint32_t each : included) of.end_agreement(each);
  for (auto& each : of.ranks) {
    each.is_member = false;
    each.gone = each.gone || each.session == nullptr;
  }
  of.members = static_cast<std::uint32_t>(included.size());
  of.failure.reset();
  count([](auto& statistics) { ++statistics.exchanges; });
  for (const std::uint32_t each : included) {
    auto& place = of.ranks[each];
    place.is_member = true;
    place.gone = false;
    place.waits = false;
  }
}

// Ranks in rejoin() continue to wait.
void store_server::fail_agreement(store_group& of, const store_failed& why) {
  const auto agreeing = of.agreeing_members();
  // Later steps of the failed renewal are rejected as outdated.
  if (const auto* const with = of.current(); with != nullptr && with->renewal != 0)
    of.begin_renewal();
  for (const std::uint32_t each : agreeing) {
    of.end_agreement(each);
    answer_request(*of.ranks[each].session, why);
  }
}

void store_server::expire_agreements(store_group& of) {
  for (std::uint32_t each = 0; each < of.size(); ++each)
    if (of.ranks[each].until.expired()) expire_agreement(of, each);
  of.first_end = deadline::never();
  for (const auto& each : of.ranks) of.first_end = earliest(of.first_end, each.until);
}

void store_server::expire_agreement(store_group& of, std::uint32_t rank) {
  auto& place = of.ranks[rank];
  store_failed late{.why = store_failure::missing, .rank = rank, .name = place.agreement->name};
  if (place.waits) {
    late.ranks = of.ranks_that([](const auto& other) { return other.is_present(); });
    of.end_agreement(rank);
    return answer_request(*place.session, late);
  }
  late.ranks = of.not_agreeing();
  if (place.agreement->kind != agreement_kind::leaves_out || !of.can_expel(late.ranks))
    return fail_agreement(of, late);
  for (const std::uint32_t other : late.ranks) expel(of, other);
}

// Sends a last message to a rank and closes its connection.
void store_server::expel(store_group& of, std::uint32_t rank) {
  store_session& client = *of.ranks[rank].session;
  leave(client);
  client.until = deadline::after(time_to_finish);
  answer_or_close(client, [&] {
    return encode(store_failed{.why = store_failure::expelled, .ranks = {rank}});
  });
}

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(store_server& server) noexcept { delete &server; }

}  // namespace verbena::inline VERBENA_ABI::net::detail
