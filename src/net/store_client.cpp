// SPDX-License-Identifier: MIT
#include "verbena/net/store_client.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "src/base/earliest.hpp"
#include "src/bringup/socket.hpp"
#include "src/net/rank_list.hpp"
#include "src/net/store_link.hpp"
#include "src/net/store_message.hpp"
#include "verbena/base/log.hpp"
#include "verbena/base/random.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace {

// The interval at which the new process of a rank retries while the old process is connected.
constexpr std::chrono::milliseconds time_to_retry{10};

using detail::store_failure;

static_assert(store_client::max_value_bytes == detail::max_value_bytes);

// Returns the time limit of the store for its answer, in milliseconds: shorter than the time of the
// caller.
std::uint32_t timeout_ms(deadline until) {
  using std::chrono::milliseconds;
  constexpr auto longest = milliseconds(std::numeric_limits<std::int32_t>::max());
  if (until.is_never()) return std::numeric_limits<std::int32_t>::max();
  const auto left = std::chrono::duration_cast<milliseconds>(until.time_left());
  const auto bounded = std::min(left, longest);
  // Rounded up: short deadlines have a reserve too.
  const auto reserve = std::min((bounded + milliseconds(7)) / 8, milliseconds(250));
  return static_cast<std::uint32_t>((bounded - reserve).count());
}

// Returns a description of the exchange or of the step of an agreement.
std::string called(std::string_view call, const std::string& name) {
  if (call == "exchange") return "exchange(\"" + name + "\")";
  return name.find(' ') == std::string::npos ? name + "()" : "the step \"" + name + "\"";
}

// Returns the reason why a process cannot rejoin a group. `missing` are not connected to the store.
std::string reason_of_forming(std::span<const std::uint32_t> missing) {
  if (missing.empty())
    return "no member of the group is connected to the store; if all ranks have ended, they join a "
           "new group by group::join()";
  return fmt::format(
      "the group has not formed yet: its first exchange has not succeeded, and {} {} not connected "
      "to the store; only a process that replaces a member calls group::rejoin(), and all others "
      "call group::join()",
      detail::to_text(missing), missing.size() == 1 ? "is" : "are");
}

error explain(std::string_view call, const membership& who, const detail::store_failed& why) {
  const std::string what = called(call, why.name);
  const std::string ranks = detail::to_text(why.ranks);
  const std::string object = detail::to_text(who);
  const auto invalid = [&](const std::string& text) {
    return error::invalid_argument(std::string(call), object, text);
  };
  switch (why.why) {
    case store_failure::missing:
      return error::timed_out(
          std::string(call), object,
          fmt::format("{} had not called {} when the deadline of rank {} passed", ranks, what,
                      why.rank));
    case store_failure::gone:
      if (why.name.empty())
        return error::from_errno(ECONNABORTED, std::string(call), object,
                                 ranks +
                                     " left the group; a new process of a rank that has left "
                                     "calls group::rejoin()");
      return error::from_errno(
          ECONNABORTED, std::string(call), object,
          fmt::format("{} left the group before the end of exchange(\"{}\")", ranks, why.name));
    case store_failure::duplicate:
      return invalid(fmt::format("another process has already joined as {}", ranks));
    case store_failure::other_size:
      return invalid(fmt::format("this process states a group of {} ranks, and others one of {}",
                                 who.size, why.rank));
    case store_failure::other_name:
      return invalid(fmt::format("rank {} called {} while {} called another exchange or agreement",
                                 why.rank, what, ranks));
    case store_failure::wrong_parts:
      return invalid(
          fmt::format("{} contributed neither one part nor {} parts to {}", ranks, who.size, what));
    case store_failure::too_large:
      return invalid(
          fmt::format("the parts of {} for {} exceed the limit of the store; raise "
                      "store_options::max_message_bytes of the store or exchange less",
                      what, ranks));
    case store_failure::full:
      return error::unavailable(0, std::string(call), object,
                                "the store has no room for another group or rank; see "
                                "store_options::max_groups and max_clients");
    case store_failure::other_secret:
      return error::from_errno(EACCES, std::string(call), object,
                               "the secrets of the store and of this process differ");
    case store_failure::interrupted:
      return error::from_errno(
          ECONNABORTED, std::string(call), object,
          fmt::format("{} called shrink() or readmit() before the end of exchange(\"{}\")", ranks,
                      why.name));
    case store_failure::expelled:
      return error::from_errno(
          ECONNABORTED, std::string(call), object,
          "the other ranks continue without this one, which did not call shrink() in time; a new "
          "process of this rank can call group::rejoin()");
    case store_failure::outdated:
      return error::from_errno(
          ECONNABORTED, std::string(call), object,
          fmt::format("{} belongs to a call of shrink() or readmit() that has failed, or the other "
                      "ranks have begun another call; call it again",
                      what));
    case store_failure::forming:
      return invalid(reason_of_forming(why.ranks));
    case store_failure::other_version:
      break;
  }
  return error::protocol(std::string(call), object,
                         "the store uses a different protocol version; use one version of the "
                         "library in all processes");
}

// Sends a request and returns the answer, or nullopt if the deadline passes first.
result<std::optional<detail::store_answer>> ask_for(detail::store_link& link,
                                                    const detail::asked& what,
                                                    detail::encode_request encode, deadline until) {
  auto answer = detail::ask_store(link, what, encode, until);
  if (!answer && link.failure) return detail::explain_failure(what.call, link);
  return answer;
}

// Sends a message and returns the answer. If the deadline passes, the answer is abandoned.
result<detail::store_answer> receive_answer(detail::store_link& link, const detail::asked& what,
                                            detail::encode_request encode, deadline until) {
  VERBENA_TRY(auto answer, ask_for(link, what, encode, until));
  if (answer) return *std::move(answer);
  return error::timed_out(
      std::string(what.call), detail::to_text(link.who),
      fmt::format("the store at {} did not answer before the deadline", link.stream.peer()));
}

// Returns an answer of type T. Converts a failure to an error.
template <class T>
result<T> receive(detail::store_link& link, const detail::asked& what,
                  detail::encode_request encode, deadline until) {
  VERBENA_TRY(auto answer, receive_answer(link, what, encode, until));
  if (const auto* const failed = std::get_if<detail::store_failed>(&answer))
    return explain(what.call, link.who, *failed);
  if (auto* const wanted = std::get_if<T>(&answer)) return std::move(*wanted);
  return error::protocol(std::string(what.call), link.stream.peer(),
                         "the answer of the store does not match the request");
}

// A request about a value of `rank`.
struct value_request {
  const char* call;
  std::uint32_t rank;
  std::string_view name;
};

error explain(const value_request& what, const membership& who, const detail::store_reply& why) {
  using detail::value_outcome;
  const std::string object = detail::to_text(who);
  const auto aborted = [&](const std::string& text) {
    return error::from_errno(ECONNABORTED, what.call, object, text);
  };
  const auto full = [&](const std::string& text) {
    return error::unavailable(0, what.call, object, text);
  };
  switch (why.outcome) {
    case value_outcome::missing:
      return error::timed_out(what.call, object,
                              fmt::format("rank {} had not published \"{}\" before the deadline",
                                          what.rank, what.name));
    case value_outcome::gone:
      return aborted(fmt::format("rank {} left the group, and \"{}\" does not exist without it",
                                 what.rank, what.name));
    case value_outcome::interrupted:
      return aborted(
          fmt::format("rank {} called shrink() or readmit() before rank {} had published \"{}\"",
                      why.detail, what.rank, what.name));
    case value_outcome::unknown:
      return error::from_errno(ENOENT, what.call, object,
                               fmt::format("this rank has not published \"{}\"", what.name));
    case value_outcome::too_many:
      return full(
          fmt::format("\"{}\" exceeds the limit of {} names of a rank; withdraw names, or raise "
                      "store_options::max_values_per_rank",
                      what.name, why.detail));
    case value_outcome::too_many_bytes:
      return full(
          fmt::format("\"{}\" exceeds the limit of {} bytes in the names and values of a rank; "
                      "withdraw names, or raise store_options::max_value_bytes_per_rank",
                      what.name, why.detail));
    case value_outcome::full:
      return full(
          fmt::format("\"{}\" exceeds the limit of {} bytes in the names and values of all ranks; "
                      "withdraw names, or raise store_options::max_value_bytes",
                      what.name, why.detail));
    case value_outcome::done:
      break;
  }
  return error::protocol(what.call, object, "the store sent an unknown outcome");
}

// Sends a request about a value and returns the value of the reply. If the deadline passes, the
// request is abandoned, and a later reply is ignored.
result<detail::blob> ask(detail::store_link& link, const membership& who, const value_request& what,
                         detail::encode_request encode, deadline until) {
  const auto late = [&](const char* why) {
    return error::timed_out(what.call, detail::to_text(who), why);
  };
  if (!detail::is_value_name(what.name))
    return error::invalid_argument(
        what.call, detail::to_text(who),
        fmt::format("the name of a value has 1 to {} printable characters of ASCII",
                    detail::max_store_name_bytes));
  if (until.expired()) return late("the deadline passed before the request was sent to the store");
  VERBENA_TRY(auto answer, ask_for(link, {.call = what.call, .what = detail::asked::kind::value},
                                   encode, until));
  if (!answer) return late("the store did not answer before the deadline");
  if (const auto* const failed = std::get_if<detail::store_failed>(&*answer))
    return explain(what.call, who, *failed);
  auto* const reply = std::get_if<detail::store_reply>(&*answer);
  if (reply == nullptr)
    return error::protocol(what.call, link.stream.peer(),
                           "the answer of the store does not match the request");
  if (reply->outcome != detail::value_outcome::done) return explain(what, who, *reply);
  return std::move(reply->value);
}

// Applies the limit in the answer that admits this rank. Returns nullopt.
result<std::optional<detail::store_failed>> take_limit(detail::store_link& link,
                                                       const detail::store_answer& admitted) {
  const auto* const done = std::get_if<detail::blobs>(&admitted);
  VERBENA_TRY(const auto bytes, detail::read_admission(done != nullptr ? *done : detail::blobs()));
  link.set_limit(bytes);
  return std::optional<detail::store_failed>();
}

// Sends the hello. If the sides have a secret, each side proves that it has the secret. Returns the
// rejection of the store, or nullopt if the store has admitted the rank.
result<std::optional<detail::store_failed>> greet(detail::store_link& link, const membership& who,
                                                  detail::store_entry entry, deadline until) {
  using refusal = std::optional<detail::store_failed>;
  detail::store_hello hello{.entry = entry, .rank = who.rank, .size = who.size, .name = who.name};
  fill_random(hello.random);
  const auto refuse = [&](const char* why) {
    return error::from_errno(EACCES, "connect", link.stream.peer(), why);
  };
  const detail::asked entry_request{.call = "connect"};
  const auto greeting = [&](std::uint32_t) { return encode(hello); };
  VERBENA_TRY(auto answer, receive_answer(link, entry_request, greeting, until));
  if (auto* const failed = std::get_if<detail::store_failed>(&answer))
    return refusal(std::move(*failed));
  const auto* const challenge = std::get_if<detail::store_challenge>(&answer);
  if (who.secret.empty()) {
    if (challenge == nullptr) return take_limit(link, answer);
    return refuse(
        "the store requires a secret; set VERBENA_SECRET or membership::secret of this process");
  }
  if (challenge == nullptr)
    return refuse(
        "the store has no secret, but this process has one; set VERBENA_SECRET or "
        "store_options::secret of the store");
  if (!detail::are_equal(challenge->proof,
                         detail::prove(who.secret, "store", hello, challenge->random)))
    return refuse("the secrets of the store and of this process differ");
  const detail::store_proof ours{.proof =
                                     detail::prove(who.secret, "rank", hello, challenge->random)};
  const auto proof = [&](std::uint32_t) { return encode(ours); };
  VERBENA_TRY(auto admitted, receive_answer(link, entry_request, proof, until));
  if (auto* const failed = std::get_if<detail::store_failed>(&admitted))
    return refusal(std::move(*failed));
  return take_limit(link, admitted);
}

result<bringup::stream> open_stream(const membership& who, deadline until) {
  auto made =
      bringup::stream::connect(who.store, until,
                               {.retry_refused = until.time_left(),
                                .stream = {.max_blob_bytes = store_client::max_message_bytes}});
  if (made || who.host != store_host::rank_0 || who.rank == 0) return made;
  return std::move(made).error().with_diagnosis(
      "rank 0 opens the store at this address in group::join(); check that rank 0 runs and has the "
      "same address of the store");
}

}  // namespace

result<store_client> store_client::connect(const membership& who, deadline until) {
  VERBENA_TRY_VOID(who.check());
  VERBENA_TRY(auto with, open_stream(who, until));
  store_client made(new detail::store_link(std::move(with), who), who);
  VERBENA_TRY(const auto refused, greet(*made.link_, who, detail::store_entry::joins, until));
  if (refused) return explain("connect", who, *refused);
  return made;
}

result<store_client> store_client::connect_again(const membership& who, deadline until) {
  VERBENA_TRY_VOID(who.check());
  std::optional<detail::store_failed> refused;
  while (true) {
    auto with = open_stream(who, until);
    if (!with && refused) return explain("rejoin", who, *refused);
    if (!with) return std::move(with).error();
    store_client made(new detail::store_link(*std::move(with), who), who);
    VERBENA_TRY(refused, greet(*made.link_, who, detail::store_entry::rejoins, until));
    if (!refused) return made;
    if (refused->why != store_failure::duplicate || until.expired())
      return explain("rejoin", who, *refused);
    // The store has not detected the end of the old process yet, or the old process is still alive.
    ::poll(nullptr, 0, static_cast<int>(time_to_retry.count()));
  }
}

result<std::vector<exchanged_bytes>> store_client::exchange(
    std::string_view name, std::span<const std::span<const std::byte>> parts, deadline until) {
  if (name.size() > detail::max_store_name_bytes)
    return error::invalid_argument("exchange", link_->stream.peer(),
                                   fmt::format("a name of {} bytes exceeds the limit of {} bytes",
                                               name.size(), detail::max_store_name_bytes));
  // Without a request, the exchange of the other ranks does not fail at once.
  if (until.expired())
    return error::timed_out("exchange", detail::to_text(who_),
                            "the deadline passed before the request was sent to the store");
  const auto encode_parts = [&](std::uint32_t number) {
    return detail::encode_exchange(
        {.number = number, .timeout_ms = timeout_ms(until), .name = std::string(name)}, parts);
  };
  VERBENA_TRY(auto all,
              receive<detail::blobs>(
                  *link_, {.call = "exchange", .what = detail::asked::kind::exchange, .name = name},
                  encode_parts, until));
  if (all.size() != who_.size)
    return error::protocol(
        "exchange", link_->stream.peer(),
        fmt::format("the store sent {} parts to a group of {} ranks", all.size(), who_.size));
  return all;
}

result<std::vector<exchanged_bytes>> store_client::exchange(std::string_view name,
                                                            std::span<const std::byte> for_all,
                                                            deadline until) {
  return exchange(name, std::span(&for_all, 1), until);
}

result<void> store_client::publish(std::string_view name, std::span<const std::byte> value,
                                   deadline until) {
  if (value.size() > max_value_bytes)
    return error::invalid_argument("publish", detail::to_text(who_),
                                   fmt::format("a value of {} bytes exceeds the limit of {} bytes",
                                               value.size(), max_value_bytes));
  VERBENA_TRY(const auto none,
              ask(
                  *link_, who_, {.call = "publish", .rank = who_.rank, .name = name},
                  [&](std::uint32_t number) { return detail::encode_publish(number, name, value); },
                  until));
  static_cast<void>(none);
  return {};
}

result<void> store_client::withdraw(std::string_view name, deadline until) {
  VERBENA_TRY(
      const auto none,
      ask(
          *link_, who_, {.call = "withdraw", .rank = who_.rank, .name = name},
          [&](std::uint32_t number) {
            return encode(detail::store_withdraw{.number = number, .name = std::string(name)});
          },
          until));
  static_cast<void>(none);
  return {};
}

result<exchanged_bytes> store_client::find(std::uint32_t rank, std::string_view name,
                                           deadline until) {
  if (rank >= who_.size)
    return error::invalid_argument(
        "find", detail::to_text(who_),
        fmt::format("rank {} is not less than the size of the group, {}", rank, who_.size));
  return ask(
      *link_, who_, {.call = "find", .rank = rank, .name = name},
      [&](std::uint32_t number) {
        return encode(detail::store_find{.number = number,
                                         .timeout_ms = timeout_ms(until),
                                         .rank = rank,
                                         .name = std::string(name)});
      },
      until);
}

std::span<const std::uint32_t> store_client::departed() {
  receive_news(*link_);
  return link_->departed;
}

std::span<const std::uint32_t> store_client::returning() {
  receive_news(*link_);
  return link_->returning;
}

result<detail::store_agreed> store_client::agree(std::string_view call,
                                                 const detail::store_agreement& what,
                                                 std::span<const std::span<const std::byte>> parts,
                                                 deadline until) {
  // With an expired deadline, the store would expel the other ranks immediately.
  if (until.expired())
    return error::timed_out(std::string(call), link_->stream.peer(),
                            "the deadline passed before the other ranks were asked");
  auto timed = what;
  const auto encode_parts = [&](std::uint32_t number) {
    timed.number = number;
    timed.timeout_ms = timeout_ms(verbena::detail::share_of(until, 2));
    return encode_agreement(timed, parts);
  };
  VERBENA_TRY(auto agreed, receive<detail::store_agreed>(
                               *link_, {.call = call, .what = detail::asked::kind::agreement},
                               encode_parts, until));
  const bool is_ordered =
      std::ranges::adjacent_find(agreed.ranks, std::greater_equal<>()) == agreed.ranks.end();
  if (!is_ordered || agreed.ranks.size() != agreed.parts.size() || agreed.renewal == 0 ||
      (what.renewal != 0 && agreed.renewal != what.renewal) ||
      !std::ranges::binary_search(agreed.ranks, who_.rank) || agreed.ranks.back() >= who_.size)
    return error::protocol(
        std::string(call), link_->stream.peer(),
        fmt::format("the store sent an agreement of {} with {} parts and the number {} to rank {} "
                    "of {}",
                    detail::to_text(agreed.ranks), agreed.parts.size(), agreed.renewal, who_.rank,
                    who_.size));
  return agreed;
}

result<void> store_client::check_store(std::string_view call, deadline until) {
  VERBENA_TRY(const auto reply,
              receive<detail::store_reply>(
                  *link_, {.call = call, .what = detail::asked::kind::value},
                  [](std::uint32_t number) { return encode(detail::store_check{number}); }, until));
  static_cast<void>(reply);
  return {};
}

bool store_client::is_agreement_open() const noexcept { return link_->is_agreement_open; }

bool store_client::is_expelled() const noexcept { return link_->last_answer.has_value(); }

error store_client::expulsion(std::string_view call) const {
  return explain(call, who_, *link_->last_answer);
}

std::size_t store_client::message_limit() const noexcept { return link_->max_message_bytes; }

void store_client::set_members(std::span<const std::uint32_t> ranks) {
  const auto is_member = [&](auto each) { return std::ranges::binary_search(ranks, each); };
  if (std::exchange(link_->has_rank_0, is_member(0U)) && !is_member(0U) &&
      who_.host == store_host::rank_0)
    log(log_level::warning,
        fmt::format("{}: the group continues without rank 0, whose process has the store at {}; "
                    "exchanges, shrink() and readmit() fail after the end of that process; a "
                    "separate store (verbena launch or verbena store) does not depend on a rank",
                    detail::to_text(who_), link_->stream.peer()));
  std::erase_if(link_->departed, is_member);
  std::erase_if(link_->returning, is_member);
  for (std::uint32_t each = 0; each < who_.size; ++each)
    if (!is_member(each)) link_->add(each, link_->departed);
}

result<std::string> store_client::local_host() const {
  VERBENA_TRY(auto local, bringup::detail::local_address_of(link_->stream.fd()));
  return std::move(local.host);
}

void store_client::leave() {
  const auto closed = std::move(link_->stream);
  link_->last_answer = detail::store_failed{.why = store_failure::expelled};
}

}  // namespace verbena::inline VERBENA_ABI::net
