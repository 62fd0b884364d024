// SPDX-License-Identifier: MIT
#include "verbena/net/store_client.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <optional>

#include "src/net/rank_list.hpp"
#include "src/net/store_message.hpp"
#include "verbena/base/random.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {

/// The connection, which does not move while it receives.
struct store_link {
  explicit store_link(bringup::stream with) : stream(std::move(with)) {}

  void note(const store_left& news) {
    departed.insert(departed.end(), news.ranks.begin(), news.ranks.end());
  }

  bringup::stream stream;
  std::optional<steps<blob>> receiving;  // a message between answers
  std::vector<std::uint32_t> departed;
  bool is_lost = false;
};

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(store_link& link) noexcept { delete &link; }

}  // namespace detail

namespace {

// The time for the rest of a message that has begun.
constexpr std::chrono::seconds time_to_receive{2};

using detail::store_failure;

// The time that the store has until it must answer: less than the time of the caller.
std::uint32_t timeout_ms(deadline until) {
  using std::chrono::milliseconds;
  constexpr auto longest = milliseconds(std::numeric_limits<std::int32_t>::max());
  if (until.is_never()) return std::numeric_limits<std::int32_t>::max();
  if (until.expired()) return 0;
  const auto left = std::chrono::duration_cast<milliseconds>(until.when() - deadline::clock::now());
  const auto bounded = std::clamp(left, milliseconds(0), longest);
  return static_cast<std::uint32_t>((bounded - std::min(bounded / 8, milliseconds(250))).count());
}

error explain(std::string_view call, const membership& who, const detail::store_failed& why) {
  const std::string ranks = detail::to_text(why.ranks);
  const std::string object = who.name.empty()
                                 ? fmt::format("rank {}", who.rank)
                                 : fmt::format("rank {} of group {}", who.rank, who.name);
  const auto invalid = [&](const std::string& text) {
    return error::invalid_argument(std::string(call), object, text);
  };
  switch (why.why) {
    case store_failure::missing:
      return error::timed_out(
          std::string(call), object,
          fmt::format("{} had not called exchange(\"{}\") when the deadline of rank {} passed",
                      ranks, why.name, why.rank));
    case store_failure::gone:
      return error::from_errno(
          ECONNABORTED, std::string(call), object,
          fmt::format("{} left the group{}", ranks,
                      why.name.empty() ? std::string()
                                       : " before the end of exchange(\"" + why.name + "\")"));
    case store_failure::duplicate:
      return invalid(fmt::format("another process has {} of the group", ranks));
    case store_failure::other_size:
      return invalid(fmt::format("this process states a group of {} ranks, and others one of {}",
                                 who.size, why.rank));
    case store_failure::other_name:
      return invalid(fmt::format("rank {} called exchange(\"{}\") while {} called another exchange",
                                 why.rank, why.name, ranks));
    case store_failure::wrong_parts:
      return invalid(fmt::format("{} contributed neither one part nor {} parts to exchange(\"{}\")",
                                 ranks, who.size, why.name));
    case store_failure::too_large:
      return invalid(
          fmt::format("the parts of exchange(\"{}\") for {} exceed the limit of the store; raise "
                      "store_options::max_message_bytes or exchange less",
                      why.name, ranks));
    case store_failure::full:
      return error::unavailable(0, std::string(call), object,
                                "the store has no room for another group; see "
                                "store_options::max_groups");
    case store_failure::other_secret:
      return error::from_errno(EACCES, std::string(call), object,
                               "the store has another secret than this process");
    case store_failure::other_version:
      break;
  }
  return error::protocol(std::string(call), object,
                         "the store has another version of the protocol; use one version of the "
                         "library in all processes");
}

// Sends a message, and returns its answer.
result<detail::store_answer> receive_answer(detail::store_link& link, const membership& who,
                                            std::string_view call,
                                            std::span<const std::byte> message, deadline until) {
  if (link.receiving) {
    VERBENA_TRY(const auto begun, std::move(*link.receiving).wait());
    link.receiving.reset();
    VERBENA_TRY(const auto news, detail::decode_answer(begun));
    if (const auto* const left = std::get_if<detail::store_left>(&news)) link.note(*left);
  }
  VERBENA_TRY_VOID(link.stream.send(message, until));
  while (true) {
    VERBENA_TRY(const auto bytes, link.stream.receive(until));
    VERBENA_TRY(auto answer, detail::decode_answer(bytes));
    if (const auto* const failed = std::get_if<detail::store_failed>(&answer))
      return explain(call, who, *failed);
    const auto* const left = std::get_if<detail::store_left>(&answer);
    if (left == nullptr) return answer;
    link.note(*left);
  }
}

// Each side proves that it has the secret, if one of them has a secret.
result<void> greet(detail::store_link& link, const membership& who, deadline until) {
  detail::store_hello hello{.rank = who.rank, .size = who.size, .name = who.name};
  fill_random(hello.random);
  const auto refuse = [&](const char* why) {
    return error::from_errno(EACCES, "connect", link.stream.peer(), why);
  };
  VERBENA_TRY(const auto answer, receive_answer(link, who, "connect", encode(hello), until));
  const auto* const challenge = std::get_if<detail::store_challenge>(&answer);
  if (who.secret.empty()) {
    if (challenge == nullptr) return {};
    return refuse(
        "the store requires a secret; set VERBENA_SECRET or membership::secret of this process");
  }
  if (challenge == nullptr)
    return refuse(
        "the store has no secret, but this process has one; set VERBENA_SECRET or "
        "store_options::secret of the store");
  if (!detail::are_equal(challenge->proof,
                         detail::prove(who.secret, "store", hello, challenge->random)))
    return refuse("the store has another secret than this process");
  const detail::store_proof ours{.proof =
                                     detail::prove(who.secret, "rank", hello, challenge->random)};
  VERBENA_TRY(const auto admitted, receive_answer(link, who, "connect", encode(ours), until));
  static_cast<void>(admitted);
  return {};
}

}  // namespace

result<store_client> store_client::connect(const membership& who, deadline until) {
  VERBENA_TRY_VOID(who.check());
  const auto wait = until.is_never()  ? deadline::clock::duration::max()
                    : until.expired() ? deadline::clock::duration::zero()
                                      : until.when() - deadline::clock::now();
  VERBENA_TRY(auto with,
              bringup::stream::connect(
                  who.store, until,
                  {.retry_refused = wait, .stream = {.max_blob_bytes = max_message_bytes}}));
  store_client made(new detail::store_link(std::move(with)), who);
  VERBENA_TRY_VOID(greet(*made.link_, made.who_, until));
  return made;
}

result<std::vector<exchanged_bytes>> store_client::exchange(
    std::string_view name, std::span<const std::span<const std::byte>> parts, deadline until) {
  if (name.size() > detail::max_store_name_bytes)
    return error::invalid_argument("exchange", link_->stream.peer(),
                                   fmt::format("a name of {} bytes exceeds the limit of {} bytes",
                                               name.size(), detail::max_store_name_bytes));
  VERBENA_TRY(auto answer,
              receive_answer(*link_, who_, "exchange",
                             detail::encode_exchange(timeout_ms(until), name, parts), until));
  if (!std::holds_alternative<detail::blobs>(answer))
    return error::protocol("exchange", link_->stream.peer(),
                           "the store sent a challenge after the connection was admitted");
  auto all = std::get<detail::blobs>(std::move(answer));
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

std::span<const std::uint32_t> store_client::departed() {
  auto& link = *link_;
  const auto lose = [&] {
    link.is_lost = true;
    if (who_.host == store_host::rank_0 && who_.rank != 0) link.departed.push_back(0);
  };
  while (!link.is_lost) {
    if (!link.receiving) {
      pollfd event{.fd = link.stream.fd(), .events = POLLIN, .revents = 0};
      if (::poll(&event, 1, 0) <= 0) break;
      link.receiving.emplace(link.stream.receive_in_steps(deadline::after(time_to_receive)));
    }
    auto received = link.receiving->progress();
    if (!received) break;
    link.receiving.reset();
    auto news = *received ? detail::decode_answer(**received)
                          : result<detail::store_answer>(std::move(*received).error());
    const auto* const left = news ? std::get_if<detail::store_left>(&*news) : nullptr;
    if (left != nullptr)
      link.note(*left);
    else
      lose();
  }
  return link.departed;
}

}  // namespace verbena::inline VERBENA_ABI::net
