// SPDX-License-Identifier: MIT
// Fixture with both sides of a session in this process.
#pragma once

#include <future>
#include <utility>

#include "tests/unit/cm/served.hpp"
#include "verbena/cm/session.hpp"
#include "verbena/cm/session_connector.hpp"
#include "verbena/cm/session_listener.hpp"

namespace verbena::test {

class sessions : public served {
 protected:
  static constexpr auto sending = cm::session_queue::send;
  static constexpr auto receiving = cm::session_queue::receive;

  struct pair {
    cm::session active;
    cm::session passive;
  };

  [[nodiscard]] cm::session_listener serve(const cm::listener_options& options = {}) const {
    return cm::session_listener::open({.host = here().host(), .port = 0}, options).value();
  }
  [[nodiscard]] cm::session_connector call(const cm::session_listener& to,
                                           const cm::session_options& options = {},
                                           const cm::connector_options& how = {}) const {
    return cm::session_connector::resolve({.host = here().host(), .port = to.port()}, options,
                                          test_deadline(), how)
        .value();
  }
  /// Connects `peer` to `listener` on another thread.
  [[nodiscard]] static pair join(cm::session_connector& peer, cm::session_listener& listener,
                                 const cm::session_options& options = {}) {
    auto asked = std::async(std::launch::async, [&] { return peer.connect({}, test_deadline()); });
    auto passive =
        listener.next_request(options, test_deadline()).value().accept({}, test_deadline()).value();
    return {asked.get().value(), std::move(passive)};
  }
  [[nodiscard]] pair connect(const cm::session_options& options = {}) const {
    auto listener = serve();
    auto peer = call(listener, options);
    return join(peer, listener, options);
  }

  static bool is_iwarp(cm::session& of) { return of.connection().id().is_iwarp(); }

  /// Returns a buffer that starts with `text`.
  static cm::local_buffer buffer_of(const cm::session& of, std::string_view text,
                                    std::size_t bytes = 256) {
    auto made =
        of.create_buffer(bytes, access::local_write | access::remote_write | access::remote_read)
            .value();
    std::ranges::copy(test::bytes_of(text), made.bytes().begin());
    return made;
  }
  static std::string text_at(const cm::local_buffer& buffer, std::size_t offset,
                             std::size_t bytes) {
    return text_of(buffer.bytes().subspan(offset, bytes));
  }
  /// Advertises `buffer` to the peer; returns the peer's view of it.
  static cm::remote_buffer advertise_to(cm::session& from, const cm::local_buffer& buffer,
                                        cm::session& to,
                                        access_flags access = access::remote_write |
                                                              access::remote_read) {
    to.expect_advertisement().value();
    from.advertise(buffer, access).value();
    return to.wait_advertisement(test_deadline()).value();
  }
};

}  // namespace verbena::test
