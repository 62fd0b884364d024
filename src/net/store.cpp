// SPDX-License-Identifier: MIT
#include "verbena/net/store.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "src/net/store_message.hpp"
#include "src/net/store_server.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/random.hpp"
#include "verbena/bringup/listener.hpp"

namespace verbena::inline VERBENA_ABI::net {
namespace {

result<void> check(const store_options& options) {
  if (options.max_message_bytes >= store_options::min_message_bytes &&
      options.max_message_bytes <= store_options::most_message_bytes)
    return {};
  return error::invalid_argument(
      "store::open", "store_options::max_message_bytes",
      fmt::format("{} bytes is not in the range {} to {}", options.max_message_bytes,
                  store_options::min_message_bytes, store_options::most_message_bytes));
}

}  // namespace

result<store> store::open(const bringup::address& at, const store_options& options) {
  VERBENA_TRY_VOID(check(options));
  auto limits = options.listener;
  limits.streams.max_blob_bytes = detail::max_greeting_bytes;
  VERBENA_TRY(auto listener, bringup::listener::open(at, limits));
  unique_fd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return error::from_errno(errno, "eventfd", to_string(at));
  store made(new detail::store_server(std::move(listener), std::move(stop), options));
  VERBENA_TRY_VOID(made.server_->start());
  return made;
}

const bringup::address& store::local_address() const noexcept { return server_->local_address(); }

std::string random_secret() {
  std::array<std::byte, sizeof(detail::digest)> bytes{};
  fill_random(bytes);
  std::string text;
  for (const std::byte each : bytes) text += fmt::format("{:02x}", std::to_integer<int>(each));
  return text;
}

store_statistics store::statistics() const { return server_->statistics(); }

}  // namespace verbena::inline VERBENA_ABI::net
