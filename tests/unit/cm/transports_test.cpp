// SPDX-License-Identifier: MIT
// What differs between the transports that the connection manager connects, and what the library
// does about it.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/cm/served.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/read_sink.hpp"

namespace verbena {
namespace {

using test::end;
using test::patience;
using test::text_of;

class transports : public test::served {
 protected:
  struct ends {
    end asking;
    end answering;
  };

  /// Both ends of one connection; the asking one asks on a thread of its own.
  [[nodiscard]] ends connect(const cm::connection_options& asking = {},
                             const cm::connection_options& answering = {}) {
    auto door = open();
    auto peer = find(door.port());
    auto asked = std::async(std::launch::async, [&] { return test::ask(peer, asking); });
    auto answered = test::grant(door.accept(patience()).value(), answering);
    auto connected = asked.get();
    return {std::move(connected).value(), std::move(answered).value()};
  }
};

TEST_F(transports, read_into_memory_with_the_rights_of_a_sink) {
  auto [asking, answering] = connect();
  for (auto [reader, peer] : {std::pair{&asking, &answering}, std::pair{&answering, &asking}}) {
    std::ranges::copy(test::bytes_of("from the peer"), peer->own->memory.bytes().begin());
    const auto device = reader->own->pd.context();
    const auto sink = reader->own->pd.allocate(4096, read_sink_access(device)).value();
    const auto fits = check_read_sink(device, sink.rights());
    ASSERT_TRUE(fits) << fits.error().message();
    auto batch = reader->link.queue().start_send();
    batch.read({.id = 1, .signaled = true}, sink.slice(0, 13),
               peer->own->memory.remote().slice(0, 13));
    batch.submit().value();
    reader->own->take(1).at(0).result().value();
    EXPECT_EQ(text_of(sink.bytes().first(16)), "from the peer");
  }
}

TEST_F(transports, name_what_a_sink_of_reads_lacks) {
  const auto device = find(1).context().value();
  const bool is_iwarp = find(1).id().is_iwarp();
  EXPECT_EQ(read_sink_access(device).contains(access::remote_write), is_iwarp);
  const auto no_right = check_read_sink(device, access::remote_read);
  ASSERT_FALSE(no_right);
  EXPECT_EQ(no_right.error().kind(), error_kind::invalid_argument);
  EXPECT_NE(no_right.error().message().find("needs local_write"), std::string::npos)
      << no_right.error().message();
  const auto local_alone = check_read_sink(device, access::local_write);
  EXPECT_EQ(local_alone.has_value(), !is_iwarp);
  if (is_iwarp) {
    EXPECT_NE(local_alone.error().message().find("answers a read by writing"), std::string::npos);
  }

  const auto most = static_cast<std::size_t>(device.query().value().max_read_slices());
  ASSERT_GE(most, 1U);
  EXPECT_EQ(most == 1, is_iwarp);
  EXPECT_TRUE(check_read_sink(device, read_sink_access(device), most));
  const auto many = check_read_sink(device, read_sink_access(device), most + 1);
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message().find("not " + std::to_string(most + 1)), std::string::npos)
      << many.error().message();
}

}  // namespace
}  // namespace verbena
