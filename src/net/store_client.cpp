// SPDX-License-Identifier: MIT
#include "verbena/net/store_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>

#include "src/net/rank_list.hpp"
#include "src/net/store_message.hpp"

namespace verbena::inline VERBENA_ABI::net {
namespace {

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
    case store_failure::other_version:
      break;
  }
  return error::protocol(std::string(call), object,
                         "the store has another version of the protocol; use one version of the "
                         "library in all processes");
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
  store_client made(std::move(with), who);
  VERBENA_TRY(
      const auto greeted,
      made.ask("connect",
               encode(detail::store_hello{.rank = who.rank, .size = who.size, .name = who.name}),
               until));
  static_cast<void>(greeted);
  return made;
}

result<std::vector<exchanged_bytes>> store_client::exchange(
    std::string_view name, std::span<const std::span<const std::byte>> parts, deadline until) {
  if (name.size() > detail::max_store_name_bytes)
    return error::invalid_argument("exchange", stream_.peer(),
                                   fmt::format("a name of {} bytes exceeds the limit of {} bytes",
                                               name.size(), detail::max_store_name_bytes));
  VERBENA_TRY(auto all,
              ask("exchange", detail::encode_exchange(timeout_ms(until), name, parts), until));
  if (all.size() != who_.size)
    return error::protocol(
        "exchange", stream_.peer(),
        fmt::format("the store sent {} parts to a group of {} ranks", all.size(), who_.size));
  return all;
}

result<std::vector<exchanged_bytes>> store_client::exchange(std::string_view name,
                                                            std::span<const std::byte> for_all,
                                                            deadline until) {
  return exchange(name, std::span(&for_all, 1), until);
}

result<std::vector<exchanged_bytes>> store_client::ask(std::string_view call,
                                                       std::span<const std::byte> message,
                                                       deadline until) {
  VERBENA_TRY_VOID(stream_.send(message, until));
  VERBENA_TRY(const auto bytes, stream_.receive(until));
  VERBENA_TRY(auto answer, detail::decode_answer(bytes));
  if (const auto* const failed = std::get_if<detail::store_failed>(&answer))
    return explain(call, who_, *failed);
  return std::get<detail::blobs>(std::move(answer));
}

}  // namespace verbena::inline VERBENA_ABI::net
