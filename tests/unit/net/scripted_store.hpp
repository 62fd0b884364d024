// SPDX-License-Identifier: MIT
// A server that acts as the store of one rank, with answers that the test determines.
#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "src/net/store_message.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/net/store_client.hpp"

namespace verbena::test {

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
