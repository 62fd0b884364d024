// SPDX-License-Identifier: MIT
// Both ends of a session in this process.
#pragma once

#include <future>
#include <utility>

#include "tests/unit/cm/served.hpp"
#include "verbena/cm/caller.hpp"
#include "verbena/cm/server.hpp"
#include "verbena/cm/session.hpp"

namespace verbena::test {

class sessions : public served {
 protected:
  static constexpr auto sending = cm::session_queue::send;
  static constexpr auto receiving = cm::session_queue::receive;

  struct pair {
    cm::session active;
    cm::session passive;
  };

  [[nodiscard]] cm::server serve(const cm::listener_options& options = {}) const {
    return cm::server::open({.host = here().host(), .port = 0}, options).value();
  }
  [[nodiscard]] cm::caller call(const cm::server& to, const cm::session_options& options = {},
                                const cm::connector_options& how = {}) const {
    return cm::caller::resolve({.host = here().host(), .port = to.port()}, options, patience(), how)
        .value();
  }
  /// Lets `peer` connect to `door` on a thread of its own.
  [[nodiscard]] static pair join(cm::caller& peer, cm::server& door,
                                 const cm::session_options& options = {}) {
    auto asked = std::async(std::launch::async, [&] { return peer.connect({}, patience()); });
    auto passive = door.next_client(options, patience()).value().accept({}, patience()).value();
    return {asked.get().value(), std::move(passive)};
  }
  [[nodiscard]] pair connect(const cm::session_options& options = {}) const {
    auto door = serve();
    auto peer = call(door, options);
    return join(peer, door, options);
  }

  static bool is_iwarp(cm::session& of) { return of.connection().id().is_iwarp(); }

  /// A buffer with this text in front.
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
  /// Tells the peer of `buffer`; what the peer then has.
  static cm::remote_buffer lend(cm::session& from, const cm::local_buffer& buffer, cm::session& to,
                                access_flags rights = access::remote_write | access::remote_read) {
    to.expect_advertisement().value();
    from.advertise(buffer, rights).value();
    return to.wait_advertisement(patience()).value();
  }
};

}  // namespace verbena::test
