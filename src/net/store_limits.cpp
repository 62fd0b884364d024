// SPDX-License-Identifier: MIT
// The clients that a store closes because of its limits, and the reasons that it sends to them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "src/base/call_or_else.hpp"
#include "src/net/store_server.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

void note_end(bringup::stream& client, std::string_view why) {
  log(log_level::info, "store: closed " + client.peer() + ": " + std::string(why));
  client.refuse(why);
}

void note_exhausted(store_session& client) noexcept {
  const auto end = [&] {
    note_end(client.stream,
             "the store had no memory for a request or an answer of this client; raise the limit "
             "of memory of the process of the store (ulimit -v, cgroup), or exchange and publish "
             "less");
  };
  verbena::detail::call_or_else(end, [&] { client.stream.refuse("the store had no memory"); });
}

void note_departure(store_session& client) {
  if (client.group == nullptr)
    return note_end(client.stream, "its process closed the connection before it had joined");
  note_end(client.stream,
           fmt::format("its process, rank {} of group \"{}\", closed the connection: it has ended, "
                       "or has destroyed its group",
                       client.rank, client.group->name));
}

void note_violation(bringup::stream& client, std::string_view why) {
  note_end(client, fmt::format("{}; use one version of the library in all processes", why));
}

void store_server::drop_late(store_session& client) {
  count([](auto& of) { ++of.refused; });
  const std::chrono::duration<double> limit = options_.listener.greeting_timeout;
  note_end(client.stream,
           fmt::format("it did not send its membership within {} s, and the proof if the store has "
                       "a secret; check the load of its host, or raise "
                       "store_options::listener.greeting_timeout of the store",
                       limit.count()));
}

deadline store_server::next_place() const noexcept {
  std::size_t places = options_.listener.max_greeting;
  deadline first = deadline::never();
  for (const auto& each : sessions_) {
    if (!each.is_silent() || each.replaceable_from.expired()) continue;
    first = earliest(first, each.replaceable_from);
    if (--places == 0) return first;
  }
  return deadline::at({});
}

void store_server::drop_silent() {
  auto count_of_silent =
      static_cast<std::size_t>(std::ranges::count_if(sessions_, &store_session::is_silent));
  for (auto next = sessions_.begin(); next != sessions_.end();) {
    const auto client = next++;
    if (count_of_silent <= options_.listener.max_greeting) return;
    if (!client->is_silent() || !client->replaceable_from.expired()) continue;
    --count_of_silent;
    count([](auto& of) { ++of.refused; });
    note_end(client->stream,
             fmt::format("it has not sent its membership, and newer connections need its place; "
                         "call the function again, or raise store_options::listener.max_greeting "
                         "of the store, {}",
                         options_.listener.max_greeting));
    close(client);
  }
}

void store_server::drop_unread() {
  std::size_t bytes = 0;
  for (const auto& each : sessions_) bytes += each.unread_bytes();
  if (bytes <= options_.max_unread_bytes) return;
  std::vector<session_iterator> slow;
  for (auto each = sessions_.begin(); each != sessions_.end(); ++each)
    if (each->sending && each->read_by.expired()) slow.push_back(each);
  // The most bytes first, so that few clients are closed.
  std::ranges::sort(slow, [](const auto& a, const auto& b) {
    return std::pair(b->unread_bytes(), a->read_by.when()) <
           std::pair(a->unread_bytes(), b->read_by.when());
  });
  for (const auto& each : slow) {
    if (bytes <= options_.max_unread_bytes) return;
    count([](auto& of) { ++of.refused; });
    note_end(each->stream,
             fmt::format("it did not read an answer of {} bytes, and all clients have not read {} "
                         "bytes; raise store_options::max_unread_bytes of the store, {}, or "
                         "unread_timeout",
                         each->unread_bytes(), bytes, options_.max_unread_bytes));
    bytes -= each->unread_bytes();
    close(each);
  }
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
