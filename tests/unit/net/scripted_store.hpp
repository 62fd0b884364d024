// SPDX-License-Identifier: MIT
// A server that acts as the store of one rank, with answers that the test determines.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "src/net/store_message.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/store_client.hpp"

namespace verbena::test {

/// Receives a request of a client.
inline net::detail::store_request request_of(bringup::stream& from) {
  return net::detail::decode_request(from.receive(test_deadline()).value()).value();
}

/// Returns the number of an exchange or agreement.
inline std::uint32_t number_of(const net::detail::store_request& of) {
  if (const auto* const exchange = std::get_if<net::detail::store_exchange>(&of))
    return exchange->number;
  return std::get<net::detail::store_agreement>(of).number;
}

/// Receives an exchange or agreement of a client, and returns its number.
inline std::uint32_t number_of_request(bringup::stream& from) {
  return number_of(request_of(from));
}

/// Sends the answer to an exchange or agreement.
inline void send_numbered(bringup::stream& to, std::uint32_t number,
                          const net::detail::blob& answer) {
  to.send(net::detail::encode_numbered(number, answer), test_deadline()).value();
}

/// Sends the answer to an exchange of one rank, with its part.
inline void send_part(bringup::stream& to, std::uint32_t number, std::string_view text) {
  const auto part = bytes_of(text);
  send_numbered(to, number, net::detail::encode_done(std::span(&part, 1)));
}

/// A server that acts as the store of one rank, and calls `serve` with the connection after the
/// greeting.
class scripted_store {
 public:
  explicit scripted_store(std::function<void(bringup::stream&)> serve)
      : thread_([this, serve = std::move(serve)] {
          auto with = listener_.accept(test_deadline()).value();
          with.receive(test_deadline()).value();
          with.send(net::detail::encode_admission(net::store_client::max_message_bytes),
                    test_deadline())
              .value();
          serve(with);
        }) {}
  scripted_store(const scripted_store&) = delete;
  scripted_store& operator=(const scripted_store&) = delete;
  ~scripted_store() { thread_.join(); }
  [[nodiscard]] net::store_client client() const {
    return connect_client(
        {.size = 1, .store = listener_.local_address(), .host = net::store_host::separate});
  }

 private:
  bringup::listener listener_ = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::thread thread_;
};

}  // namespace verbena::test
